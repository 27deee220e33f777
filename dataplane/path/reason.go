package path

import "github.com/weft-fabric/weft/apis/net/v1alpha1"

// reasons why traffic takes a path or does not.
type reasons map[Key]v1alpha1.PathReason

func (r reasons) explain(paths []Path, d decision) {
	up, _ := verdict(paths)
	for i := range paths {
		p := &paths[i]
		if p == d.chosen {
			r[p.key()] = whyChosen(p, paths, d, up)
		} else {
			r[p.key()] = whyNot(p, d)
		}
	}
}

// whyChosen explains a path in use. up tells whether any path is.
func whyChosen(p *Path, paths []Path, d decision, up bool) v1alpha1.PathReason {
	switch {
	case !up:
		return v1alpha1.PathReasonLast
	case d.contender != nil || !p.up(): // not up, and yet in use: its probes have no verdict
		return v1alpha1.PathReasonHeld
	case p.Direct:
		return v1alpha1.PathReasonDirect
	}
	for i := range paths {
		if paths[i].Direct && paths[i].up() {
			return v1alpha1.PathReasonFastest
		}
	}
	return v1alpha1.PathReasonFallback
}

func whyNot(p *Path, d decision) v1alpha1.PathReason {
	switch {
	case !p.Permitted:
		return v1alpha1.PathReasonExcluded
	case p == d.contender:
		return v1alpha1.PathReasonWaiting
	case p.up():
		return v1alpha1.PathReasonSlower
	case p.State == v1alpha1.PathDown:
		return v1alpha1.PathReasonDown
	}
	return v1alpha1.PathReasonUnproven
}
