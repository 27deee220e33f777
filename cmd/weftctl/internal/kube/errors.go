package kube

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// ErrNotInstalled says that the cluster lacks Weft's CRDs or its FabricConfig.
var ErrNotInstalled = errors.New("weft is not installed in this cluster: run `weftctl install --cluster-id ID` first")

// Missing reports whether err says that an object or its kind does not exist.
func Missing(err error) bool {
	return apierrors.IsNotFound(err) || meta.IsNoMatchError(err)
}

// Explain wraps an API error with what was tried on which object, and adds the
// remedy where there is one that the error itself does not name.
func Explain(err error, verb, object string) error {
	switch {
	case err == nil:
		return nil
	case meta.IsNoMatchError(err):
		return ErrNotInstalled
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s %s: %w (use a kubeconfig whose user may do this)", verb, object, err)
	default:
		return fmt.Errorf("%s %s: %w", verb, object, err)
	}
}
