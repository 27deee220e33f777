package path

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// Links 11 and 12 lead to a cluster directly, 21 and 22 over hubs. The path in
// use was chosen long ago unless a row says otherwise.
func TestDecide(t *testing.T) {
	const (
		isDirect, fastest, fallback, held, last = v1alpha1.PathReasonDirect, v1alpha1.PathReasonFastest, v1alpha1.PathReasonFallback, v1alpha1.PathReasonHeld, v1alpha1.PathReasonLast
		slower, dead, unproven, waiting, barred = v1alpha1.PathReasonSlower, v1alpha1.PathReasonDown, v1alpha1.PathReasonUnproven, v1alpha1.PathReasonWaiting, v1alpha1.PathReasonExcluded
	)
	type why = map[uint16]v1alpha1.PathReason
	notProbed := func(p Path) Path { p.Probed, p.State = false, unknown; return p }
	for name, c := range map[string]struct {
		paths   []Path
		used    uint32
		changed time.Duration // ago; 0: not known
		onward  bool
		better  Contender // Since is not set: long ago
		want    uint32
		again   time.Duration // from now; 0: never
		reasons why
	}{
		"nothing known: direct first":            {paths: []Path{hub(21, unknown), direct(11, unknown)}, want: 11, reasons: why{11: last, 21: unproven}},
		"nothing known, the only direct dead":    {paths: []Path{hub(21, unknown), direct(11, down)}, want: 21, reasons: why{11: dead, 21: last}},
		"no rows yet: what will be probed":       {paths: []Path{notProbed(direct(11, up)), hub(21, unknown)}, want: 21, reasons: why{11: unproven, 21: last}},
		"nothing chosen: the first that is up":   {paths: []Path{direct(11, unknown), hub(21, up).rtt(80).upFor(0)}, want: 21, reasons: why{11: unproven, 21: fallback}},
		"hub alone":                              {paths: []Path{hub(21, up).rtt(80)}, used: 21, want: 21, reasons: why{21: fallback}},
		"direct is faster":                       {paths: []Path{direct(11, up).rtt(20), hub(21, up).rtt(80)}, used: 11, want: 11, again: time.Second, reasons: why{11: isDirect, 21: slower}},
		"direct heals":                           {paths: []Path{direct(11, up).rtt(20), hub(21, up).rtt(80)}, used: 21, better: Contender{Link: 11}, want: 11, again: time.Second, reasons: why{11: isDirect, 21: slower}},
		"direct healed just now":                 {paths: []Path{direct(11, up).rtt(20).upFor(300 * time.Millisecond), hub(21, up).rtt(80)}, used: 21, better: Contender{Link: 11}, want: 21, again: 250 * time.Millisecond, reasons: why{11: waiting, 21: held}},
		"changed just now":                       {paths: []Path{direct(11, up).rtt(20), hub(21, up).rtt(80)}, used: 21, changed: time.Second, better: Contender{Link: 11}, want: 21, again: 250 * time.Millisecond, reasons: why{11: waiting, 21: held}},
		"better just now":                        {paths: []Path{direct(11, up).rtt(20), hub(21, up).rtt(80)}, used: 21, want: 21, again: 250 * time.Millisecond, reasons: why{11: waiting, 21: held}},
		"another was better until now":           {paths: []Path{direct(11, up).rtt(20), hub(21, up).rtt(80)}, used: 21, better: Contender{Link: 22}, want: 21, again: 250 * time.Millisecond, reasons: why{11: waiting, 21: held}},
		"better for almost a second":             {paths: []Path{direct(11, up).rtt(20), hub(21, up).rtt(80)}, used: 21, better: Contender{11, now.Add(-900 * time.Millisecond)}, want: 21, again: 100 * time.Millisecond, reasons: why{11: waiting, 21: held}},
		"the hold is over":                       {paths: []Path{direct(11, up).rtt(20), hub(21, up).rtt(80)}, used: 21, changed: 3 * time.Second, better: Contender{Link: 11}, want: 11, again: time.Second, reasons: why{11: isDirect, 21: slower}},
		"direct dies: at once":                   {paths: []Path{direct(11, down), hub(21, up).rtt(80).upFor(0)}, used: 11, changed: time.Millisecond, want: 21, reasons: why{11: dead, 21: fallback}},
		"direct dies, two hubs: the faster":      {paths: []Path{direct(11, down), hub(21, up).rtt(80), hub(22, up).rtt(60)}, used: 11, want: 22, again: time.Second, reasons: why{11: dead, 21: slower, 22: fallback}},
		"a direct dies: the other direct":        {paths: []Path{direct(11, down), direct(12, up).rtt(20), hub(21, up).rtt(19)}, used: 11, want: 12, again: time.Second, reasons: why{11: dead, 12: isDirect, 21: slower}},
		"all die: the last stands":               {paths: []Path{direct(11, down), hub(21, down)}, used: 21, want: 21, reasons: why{11: dead, 21: last}},
		"silence: stands":                        {paths: []Path{direct(11, unknown), hub(21, up).rtt(80)}, used: 11, want: 11, reasons: why{11: held, 21: slower}},
		"silence all over: stands":               {paths: []Path{direct(11, unknown), hub(21, unknown)}, used: 21, want: 21, reasons: why{11: unproven, 21: last}},
		"rows are gone: leaves":                  {paths: []Path{notProbed(direct(11, up)), hub(21, up).rtt(80)}, used: 11, want: 21, reasons: why{11: unproven, 21: fallback}},
		"rows are gone, no other: stands":        {paths: []Path{notProbed(direct(11, up)), hub(21, down)}, used: 11, want: 11, reasons: why{11: last, 21: dead}},
		"the path is gone":                       {paths: []Path{hub(21, down)}, used: 11, want: 21, reasons: why{21: last}},
		"hub faster by a fifth: not enough":      {paths: []Path{direct(11, up).rtt(100), hub(21, up).rtt(80)}, used: 11, want: 11, again: time.Second, reasons: why{11: isDirect, 21: slower}},
		"hub faster by more than a fifth":        {paths: []Path{direct(11, up).rtt(100), hub(21, up).rtt(79)}, used: 11, better: Contender{Link: 21}, want: 21, again: time.Second, reasons: why{11: slower, 21: fastest}},
		"hub faster by 50 %, but only 1.9 ms":    {paths: []Path{direct(11, up).rtt(3.8), hub(21, up).rtt(1.9)}, used: 11, want: 11, again: time.Second, reasons: why{11: isDirect, 21: slower}},
		"hub keeps half of its lead":             {paths: []Path{direct(11, up).rtt(100), hub(21, up).rtt(89)}, used: 21, want: 21, again: time.Second, reasons: why{11: slower, 21: fastest}},
		"hub has lost half of its lead":          {paths: []Path{direct(11, up).rtt(100), hub(21, up).rtt(91)}, used: 21, better: Contender{Link: 11}, want: 11, again: time.Second, reasons: why{11: isDirect, 21: slower}},
		"direct not measured yet beats a hub":    {paths: []Path{direct(11, up), hub(21, up).rtt(10)}, used: 21, better: Contender{Link: 11}, want: 11, again: time.Second, reasons: why{11: isDirect, 21: slower}},
		"hub not measured yet does not":          {paths: []Path{direct(11, up).rtt(50), hub(21, up)}, used: 11, want: 11, again: time.Second, reasons: why{11: isDirect, 21: slower}},
		"two direct, one a little faster":        {paths: []Path{direct(11, up).rtt(50), direct(12, up).rtt(41)}, used: 11, want: 11, again: time.Second, reasons: why{11: isDirect, 12: slower}},
		"two direct, one faster":                 {paths: []Path{direct(11, up).rtt(50), direct(12, up).rtt(39)}, used: 11, better: Contender{Link: 12}, want: 12, again: time.Second, reasons: why{11: slower, 12: isDirect}},
		"two hubs, one faster":                   {paths: []Path{hub(21, up).rtt(50), hub(22, up).rtt(39)}, used: 21, better: Contender{Link: 22}, want: 22, again: time.Second, reasons: why{21: slower, 22: fallback}},
		"two hubs, one faster, changed just now": {paths: []Path{hub(21, up).rtt(50), hub(22, up).rtt(39)}, used: 21, changed: time.Second, better: Contender{Link: 22}, want: 21, again: 250 * time.Millisecond, reasons: why{21: held, 22: waiting}},
		"Require: leaves the hub at once":        {paths: []Path{direct(11, up).rtt(20).upFor(0), hub(21, up).rtt(80).excluded()}, used: 21, changed: time.Millisecond, want: 11, reasons: why{11: isDirect, 21: barred}},
		"Require, direct dead: not the hub":      {paths: []Path{direct(11, down), hub(21, up).rtt(80).excluded()}, used: 21, want: 11, reasons: why{11: last, 21: barred}},
		"Require before there is a direct path":  {paths: []Path{hub(21, up).rtt(80).excluded()}, used: 21, want: 0, reasons: why{21: barred}},
		"ending: leaves the direct link":         {paths: []Path{direct(11, up).rtt(20).excluded(), hub(21, up).rtt(80)}, used: 11, changed: time.Millisecond, want: 21, reasons: why{11: barred, 21: fallback}},
		"ending, hub dead: leaves all the same":  {paths: []Path{direct(11, up).rtt(20).excluded(), hub(21, down)}, used: 11, want: 21, reasons: why{11: barred, 21: last}},
		"a hub itself stays direct":              {paths: []Path{direct(11, up).rtt(100), hub(21, up).rtt(20)}, used: 11, onward: true, better: Contender{Link: 21}, want: 11, again: time.Second, reasons: why{11: isDirect, 21: slower}},
		"a hub itself returns to direct":         {paths: []Path{direct(11, up).rtt(100), hub(21, up).rtt(20)}, used: 21, onward: true, better: Contender{Link: 11}, want: 11, again: time.Second, reasons: why{11: isDirect, 21: slower}},
		"a hub itself, direct dead":              {paths: []Path{direct(11, down), hub(21, up).rtt(20)}, used: 11, onward: true, want: 21, reasons: why{11: dead, 21: fallback}},
		"no path":                                {want: 0, used: 7, reasons: why{}},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Now: now, Self: 1, Clusters: []uint8{cluster}, Gateways: []Gateway{{ID: 1}}, Paths: c.paths, Previous: words(c.used, 1)}
			if c.onward {
				in.Onward = []uint8{cluster}
			}
			for i := range in.Paths {
				if in.Paths[i].Since.IsZero() {
					in.Paths[i].Since = now.Add(-time.Hour)
				}
			}
			if c.changed != 0 {
				in.Previous.Changed = map[uint8]time.Time{cluster: now.Add(-c.changed)}
			}
			in.Previous.Contenders = map[uint8]Contender{cluster: c.better}
			got := Choose(in)
			require.Equal(t, c.want, got.Paths[cluster])
			reasons := why{}
			for key, reason := range got.Reasons {
				reasons[key.Link] = reason
			}
			require.Equal(t, c.reasons, reasons)
			if c.again == 0 {
				require.Zero(t, got.Again)
			} else {
				require.Equal(t, now.Add(c.again), got.Again)
			}
			require.Equal(t, slices.Contains(slices.Collect(maps.Values(reasons)), waiting), got.Contenders[cluster].Link != 0)
			switch {
			case c.want != c.used:
				require.Equal(t, now, got.Changed[cluster])
			case c.changed != 0:
				require.Equal(t, now.Add(-c.changed), got.Changed[cluster])
			default:
				require.NotContains(t, got.Changed, uint8(cluster))
			}
		})
	}
}

// The hub path to probe as closely as the one in use.
func TestAlternate(t *testing.T) {
	for name, c := range map[string]struct {
		paths []Path
		used  uint32
		want  uint16 // 0: none
	}{
		"the only hub":               {paths: []Path{direct(11, up), hub(21, up)}, used: 11, want: 21},
		"the only hub is in use":     {paths: []Path{direct(11, down), hub(21, up)}, used: 21, want: 0},
		"the faster of two":          {paths: []Path{direct(11, up).rtt(1), hub(21, up).rtt(80), hub(22, up).rtt(50)}, used: 11, want: 22},
		"the one that is up":         {paths: []Path{direct(11, up), hub(21, down), hub(22, up)}, used: 11, want: 22},
		"none is up: the first":      {paths: []Path{direct(11, up), hub(21, down), hub(22, unknown)}, used: 11, want: 21},
		"the other one":              {paths: []Path{hub(21, up).rtt(80), hub(22, up).rtt(80)}, used: 21, want: 22},
		"not one that is never used": {paths: []Path{direct(11, up), hub(21, up).excluded()}, used: 11, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := Choose(Input{Now: now, Self: 1, Clusters: []uint8{cluster}, Paths: c.paths, Previous: words(c.used, 1)})
			require.Equal(t, c.used, got.Paths[cluster])
			require.Equal(t, c.want, got.Alternates[cluster])
		})
	}
}

// The next look is that of the cluster that needs it first.
func TestAgainIsTheEarliest(t *testing.T) {
	other := hub(31, up).rtt(9)
	other.Cluster = 3
	second := direct(32, up).rtt(5).upFor(990 * time.Millisecond)
	second.Cluster = 3
	in := Input{Now: now, Self: 1, Clusters: []uint8{cluster, 3}, Paths: []Path{direct(11, up).rtt(9), hub(21, up).rtt(9), other, second}}
	in.Previous = words(11, 1)
	in.Previous.Paths[3] = 31
	in.Previous.Contenders = map[uint8]Contender{3: {Link: 32}}
	require.Equal(t, now.Add(10*time.Millisecond), Choose(in).Again)
}
