package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// lossWorthTelling is the share of unanswered probes, in permille, from which
// a link that is up counts as a problem.
const lossWorthTelling = 20

// settlingSeconds is how long a link must have been up before its loss tells
// something: the status is written every 30 s, and until then the loss may
// count probes from before the link was up.
const settlingSeconds = 60

// lossTells reports whether the loss of a link counts only probes of the time
// since which it is up. Zero seconds may also mean that the time is not known.
func lossTells(state v1alpha1.PathState, sinceSeconds int64) bool {
	return state == v1alpha1.PathUp && sinceSeconds > settlingSeconds
}

// sinceSeconds is for how long something is so, 0 if not known.
func sinceSeconds(since, now time.Time) int64 {
	if since.IsZero() {
		return 0
	}
	return int64(max(0, now.Sub(since)).Seconds())
}

// Path is a way to another cluster over one tunnel: to the cluster itself, or to
// a hub.
type Path struct {
	// Via is the cluster at the far end of the tunnel, Direct if that is the
	// destination itself.
	Via             string              `json:"via"`
	Direct          bool                `json:"direct"`
	Gateway         int32               `json:"gateway"`
	RemoteGateway   int32               `json:"remoteGateway"`
	State           v1alpha1.PathState  `json:"state"`
	Active          bool                `json:"active"`
	Reason          v1alpha1.PathReason `json:"reason,omitempty"`
	Why             string              `json:"why,omitempty"`
	RTTMilliseconds float64             `json:"rttMilliseconds,omitempty"`
	LossPercent     float64             `json:"lossPercent"`
	SinceSeconds    int64               `json:"sinceSeconds,omitempty"`
}

func makePath(fcl *v1alpha1.ForeignCluster, path v1alpha1.PathStatus, now time.Time) Path {
	return Path{
		Via: path.Via, Direct: isDirect(fcl, path), Gateway: path.Gateway, RemoteGateway: path.RemoteGateway,
		State: path.State, Active: path.Active, Reason: path.Reason, Why: whyPath(fcl, path),
		RTTMilliseconds: milliseconds(path.RTTMicroseconds), LossPercent: percent(path.LossPermille),
		SinceSeconds: sinceSeconds(path.Since.Time, now),
	}
}

func isDirect(fcl *v1alpha1.ForeignCluster, path v1alpha1.PathStatus) bool {
	return path.Via == "" || path.Via == fcl.Name
}

// name tells the path apart from the cluster's others.
func (p Path) name() string {
	if p.Direct {
		return fmt.Sprintf("link %d-%d", p.Gateway, p.RemoteGateway)
	}
	return fmt.Sprintf("via %s link %d-%d", p.Via, p.Gateway, p.RemoteGateway)
}

// whyPath is why for one of a cluster's paths. Where there is no hub, it speaks of
// none.
func whyPath(fcl *v1alpha1.ForeignCluster, path v1alpha1.PathStatus) string {
	hub := slices.ContainsFunc(fcl.Status.Paths, func(p v1alpha1.PathStatus) bool { return !isDirect(fcl, p) })
	switch {
	case path.Reason != v1alpha1.PathReasonDirect || hub:
		return why(path.Reason, isDirect(fcl, path))
	case len(fcl.Status.Paths) == 1:
		return "direct, and the only path"
	}
	return "direct, as are all paths"
}

// why puts in plain words why traffic takes a path or does not.
func why(reason v1alpha1.PathReason, direct bool) string {
	switch reason {
	case v1alpha1.PathReasonDirect:
		return "direct, and no hub is faster by enough"
	case v1alpha1.PathReasonFastest:
		return "faster by enough than the others"
	case v1alpha1.PathReasonFallback:
		return "no direct path is up"
	case v1alpha1.PathReasonHeld:
		return "kept until a better path has lasted"
	case v1alpha1.PathReasonLast:
		return "no path is up, so the last choice stands"
	case v1alpha1.PathReasonSlower:
		return "not faster by enough than the one in use"
	case v1alpha1.PathReasonDown:
		return "probes are not answered"
	case v1alpha1.PathReasonUnproven:
		return "no probe has been answered yet"
	case v1alpha1.PathReasonWaiting:
		return "better, but has to last before traffic moves"
	case v1alpha1.PathReasonExcluded:
		if direct {
			return "excluded: the direct link is about to end"
		}
		return "excluded: a connection of mode Require keeps off hubs"
	}
	return string(reason) // of a later release
}

// pathProblems reports the paths that do not work. What policy excludes carries
// nothing, so it is no problem.
func pathProblems(in Input, fcl *v1alpha1.ForeignCluster, object string) []Problem {
	var found []Problem
	for _, status := range fcl.Status.Paths {
		path := makePath(fcl, status, in.Now)
		if path.Reason == v1alpha1.PathReasonExcluded {
			continue
		}
		problem := Problem{Object: object + ", " + path.name()}
		switch {
		case path.State == v1alpha1.PathDown && path.Direct:
			problem.What, problem.Do = "probes are not answered"+meanwhile(fcl), dialAdvice(in, fcl)
		case path.State == v1alpha1.PathDown:
			problem.What, problem.Do = "probes are not answered"+meanwhile(fcl), hubAdvice(path.Via)
		case status.LossPermille >= lossWorthTelling && lossTells(path.State, path.SinceSeconds):
			problem.What = fmt.Sprintf("%.1f %% of the probes are lost", path.LossPercent)
			problem.Do = "look for loss between the gateways outside the tunnel, such as a full uplink"
			if !path.Direct {
				problem.Do = fmt.Sprintf("look for loss between the gateways on both sides of %s, outside the tunnels, such as a full uplink", path.Via)
			}
		default:
			continue
		}
		found = append(found, problem)
	}
	return found
}

// meanwhile says which path traffic takes where one is down.
func meanwhile(fcl *v1alpha1.ForeignCluster) string {
	for _, path := range fcl.Status.Paths {
		if !path.Active || path.State != v1alpha1.PathUp {
			continue
		}
		if p := makePath(fcl, path, time.Time{}); p.Direct {
			return "; traffic takes " + p.name()
		}
		return "; traffic goes via " + path.Via
	}
	return ""
}

func milliseconds(microseconds int64) float64 { return float64(microseconds) / 1000 }

func percent(permille int32) float64 { return float64(permille) / 10 }
