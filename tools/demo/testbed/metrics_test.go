package testbed

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTransitCountsOnlyWhatIsForwarded(t *testing.T) {
	total := Transit{"a": 1}
	require.NoError(t, total.add(`# HELP weft_packets_total Packets by neighbor, hook and what became of them.
# TYPE weft_packets_total counter
weft_packets_total{direction="lane_egress",neighbor="a",reason="transit"} 1000
weft_packets_total{direction="lane_ingress",neighbor="a",reason="delivered"} 500
weft_packets_total{direction="lane_ingress",neighbor="a",reason="transit"} 7
weft_packets_total{direction="lane_ingress",neighbor="b",reason="transit"} 1.2e+06
weft_bytes_total{direction="lane_ingress",neighbor="b",reason="transit"} 99
`))
	require.Equal(t, Transit{"a": 8, "b": 1_200_000}, total)
	require.EqualValues(t, 1_200_008, total.Total())
	require.ErrorContains(t, total.add(`weft_packets_total{direction="lane_ingress",neighbor="b",reason="transit"} x`), "read")
}
