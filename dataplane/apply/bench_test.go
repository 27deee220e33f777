package apply_test

import "testing"

func BenchmarkUnchanged(b *testing.B) {
	cmd := startWireguard(b)
	defer kill(cmd)
	executor := newExecutor(b, b.TempDir())
	if _, err := executor.Apply(b.Context(), gatewayPlan()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		executor.Apply(b.Context(), gatewayPlan())
	}
}
