package apply_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/dataplane/plan"
)

// Applying a plan again changes nothing, for this agent and for a restarted one.
func TestUnchangedPlanChangesNothing(t *testing.T) {
	startWireguard(t)
	state := t.TempDir()
	executor := newExecutor(t, state)
	cleanUp(t, executor)

	first := applied(t, executor, gatewayPlan())
	require.NotEmpty(t, first.Changes)
	require.Len(t, first.Lanes, 1)
	require.NotZero(t, first.Lanes[0].PublicKey)
	require.Empty(t, applied(t, executor, gatewayPlan()).Changes)

	require.NoError(t, executor.Close())
	restarted := newExecutor(t, state)
	second := applied(t, restarted, gatewayPlan())
	require.Empty(t, second.Changes)
	require.Equal(t, first.Lanes, second.Lanes, "the key is kept")

	require.NotEmpty(t, applied(t, restarted, plan.Plan{}).Changes)
	require.Empty(t, applied(t, restarted, plan.Plan{}).Changes)
	require.NoDirExists(t, pinRoot)
}
