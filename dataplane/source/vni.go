package source

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

// vniOf reads the VNI from the overlay's Secret, 0 if it holds none. The value
// is a secret of the cluster: it is not logged, and neither is why it cannot be
// read.
func vniOf(secret *corev1.Secret) uint32 {
	text := string(secret.Data[v1alpha1.OverlaySecretKey])
	if text == "" {
		text = secret.StringData[v1alpha1.OverlaySecretKey]
	}
	vni, err := strconv.ParseUint(strings.TrimSpace(text), 10, 24)
	if err != nil {
		return 0
	}
	return uint32(vni)
}
