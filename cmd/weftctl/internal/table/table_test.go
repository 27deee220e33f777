package table

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGroupNamesTheThingOnce(t *testing.T) {
	var out strings.Builder
	table := New(&out, "CLUSTER", "UP", "NETWORK")
	table.Group([]string{"milan", "yes"}, [][]string{{"pods"}, {"nodes"}})
	table.Group([]string{"rome", Dash("")}, [][]string{{Dash("pods")}})
	table.Flush()
	require.Equal(t, "CLUSTER  UP   NETWORK\nmilan    yes  pods\n              nodes\nrome     -    pods\n", out.String())
}
