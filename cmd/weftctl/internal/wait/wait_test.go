package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Three looks at "one", one that fails, then done: each change is told once.
func TestUntilReportsChangesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := []string{"one", "one", "error", "two", ""}
		var told []string
		err := Until(t.Context(), time.Minute, func(line string) { told = append(told, line) }, func(context.Context) (string, error) {
			look := looks[0]
			looks = looks[1:]
			if look == "error" {
				return "", errors.New("the API server is away")
			}
			return look, nil
		})
		require.NoError(t, err)
		require.Equal(t, []string{"one", "the API server is away", "two"}, told)
	})
}

// What is normal for a while is told as what is waited for, and its cause in the
// end.
func TestUntilTellsTheCauseInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		err := Until(t.Context(), 3*time.Second, func(line string) { told = append(told, line) }, func(context.Context) (string, error) {
			return "waiting for milan", errors.New("connection refused")
		})
		timeout := &TimeoutError{}
		require.ErrorAs(t, err, &timeout)
		require.Equal(t, "connection refused", timeout.Pending)
		require.Equal(t, []string{"waiting for milan"}, told)
	})
}

func TestUntilEndsInTimeAndSaysWhatWasMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		err := Until(t.Context(), 10*time.Second, func(string) {}, func(ctx context.Context) (string, error) {
			if time.Since(start) > 4*time.Second {
				<-ctx.Done() // a request that hangs
				return "", ctx.Err()
			}
			return "node a2 is not ready", nil
		})
		timeout := &TimeoutError{}
		require.ErrorAs(t, err, &timeout)
		require.Equal(t, "node a2 is not ready", timeout.Pending)
		require.Equal(t, 10*time.Second, time.Since(start))
	})
}

func TestUntilObeysCancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Until(ctx, time.Minute, func(string) {}, func(context.Context) (string, error) { return "x", nil })
	require.ErrorIs(t, err, context.Canceled)
}
