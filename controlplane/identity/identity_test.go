package identity

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	apiidentity "github.com/weft-fabric/weft/apis/identity"
	"github.com/weft-fabric/weft/apis/net/v1alpha1"
)

var born = time.UnixMilli(1_790_000_000_000)

func secrets() Secrets {
	c := fake.NewClientBuilder().Build()
	return Secrets{Reader: c, Writer: c, Namespace: v1alpha1.SystemNamespace, Now: func() time.Time { return born }}
}

func TestIdentityIsMadeOnce(t *testing.T) {
	s := secrets()
	self, err := s.Identity(t.Context())
	require.NoError(t, err)
	require.Len(t, string(self.ID), 52)
	require.EqualValues(t, born.UnixMilli(), self.Epoch)
	s.Now = func() time.Time { return born.Add(time.Hour) }
	again, err := s.Identity(t.Context())
	require.NoError(t, err)
	require.Equal(t, self, again)
}

func TestDamagedIdentityIsNotReplaced(t *testing.T) {
	_, err := parseIdentity(map[string][]byte{"ed25519.seed": make([]byte, 31), "epoch": []byte("1")})
	require.ErrorContains(t, err, "31 bytes")
	require.ErrorContains(t, err, "restore it")
	_, err = parseIdentity(map[string][]byte{"ed25519.seed": make([]byte, 32), "epoch": []byte("now")})
	require.ErrorContains(t, err, "epoch")
}

func TestOverlaySecret(t *testing.T) {
	s := secrets()
	require.NoError(t, s.EnsureOverlay(t.Context()))
	var secret corev1.Secret
	require.NoError(t, s.Reader.Get(t.Context(), types.NamespacedName{Namespace: s.Namespace, Name: v1alpha1.OverlaySecretName}, &secret))
	vni, err := strconv.Atoi(string(secret.Data["vni"]))
	require.NoError(t, err)
	require.True(t, vni >= 1 && vni <= 1<<24-1, vni)
	require.NoError(t, s.EnsureOverlay(t.Context()))
}

func gatewayNode(name string, id int32, underlay string, key byte) v1alpha1.FabricNode {
	n := v1alpha1.FabricNode{Spec: v1alpha1.FabricNodeSpec{GatewayID: id}, Status: v1alpha1.FabricNodeStatus{
		UnderlayAddress: underlay,
		Lanes:           []v1alpha1.LaneStatus{{Name: "weft0", Port: 51847, PublicKey: base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{key}, 32))}},
	}}
	n.Name = name
	return n
}

func TestGateways(t *testing.T) {
	silent := gatewayNode("a4", 4, "172.31.1.14", 4)
	silent.Status.Lanes = nil
	zero := gatewayNode("a5", 5, "172.31.1.15", 0)
	nodes := []v1alpha1.FabricNode{gatewayNode("a2", 2, "172.31.1.12", 2), gatewayNode("a1", 1, "172.31.1.11", 1), gatewayNode("a3", 0, "172.31.1.13", 3), silent, zero}
	addresses := map[string][]string{"a1": {"203.0.113.9", "169.254.1.1"}}
	tests := map[string]struct {
		spec v1alpha1.GatewaySpec
		want [][]string // endpoints of gateways 1 and 2
	}{
		"host port": {v1alpha1.GatewaySpec{Exposure: v1alpha1.ExposureHostPort}, [][]string{{"203.0.113.9", "172.31.1.11"}, {"172.31.1.12"}}},
		"static":    {v1alpha1.GatewaySpec{Exposure: v1alpha1.ExposureStatic, Endpoints: []string{"gw.example.org", "127.0.0.1"}}, [][]string{{"gw.example.org"}, {"gw.example.org"}}},
		"none":      {v1alpha1.GatewaySpec{Exposure: v1alpha1.ExposureNone}, [][]string{nil, nil}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Gateways(test.spec, nodes, addresses)
			require.Len(t, got, 2, "plain nodes and those without a key are left out")
			for i, want := range test.want {
				require.EqualValues(t, i+1, got[i].ID)
				require.Equal(t, want, got[i].Endpoints)
			}
		})
	}
}

// The record is signed anew only when its content changed; the serial grows,
// also after the previous record was lost.
func TestRecord(t *testing.T) {
	self, err := secrets().Identity(t.Context())
	require.NoError(t, err)
	spec := v1alpha1.GatewaySpec{Exposure: v1alpha1.ExposureHostPort}
	one := Gateways(spec, []v1alpha1.FabricNode{gatewayNode("a1", 1, "172.31.1.11", 1)}, nil)
	two := Gateways(spec, []v1alpha1.FabricNode{gatewayNode("a1", 1, "172.31.1.12", 1)}, nil)
	at := born.Add(time.Second)

	first, err := Record(self, "a", one, "", at)
	require.NoError(t, err)
	same, err := Record(self, "a", one, first, at.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, first, same)

	second, err := Record(self, "a", two, first, at)
	require.NoError(t, err)
	third, err := Record(self, "a", one, second, born.Add(-time.Hour)) // the clock went back
	require.NoError(t, err)
	lost, err := Record(self, "a", one, "", at.Add(time.Minute))
	require.NoError(t, err)
	var before *apiidentity.Record
	for _, token := range []string{first, second, third, lost} {
		record, err := apiidentity.ParseRecord(token)
		require.NoError(t, err)
		require.Equal(t, self.ID, record.Identity())
		require.True(t, record.NewerThan(before), token)
		before = record
	}
}

// A record does not depend on the order in which a cache lists, also where it
// has no place for all gateways.
func TestGatewaysInAnyOrder(t *testing.T) {
	var nodes []v1alpha1.FabricNode
	for id := range int32(20) {
		nodes = append(nodes, gatewayNode(fmt.Sprintf("a%d", id+1), id+1, "172.31.1.11", byte(id+1)))
	}
	spec := v1alpha1.GatewaySpec{Exposure: v1alpha1.ExposureNone}
	want := Gateways(spec, nodes, nil)
	require.Len(t, want, apiidentity.MaxGateways)
	slices.Reverse(nodes)
	require.Equal(t, want, Gateways(spec, nodes, nil))
}

func TestCheckEndpoints(t *testing.T) {
	static := func(endpoints ...string) v1alpha1.GatewaySpec {
		return v1alpha1.GatewaySpec{Exposure: v1alpha1.ExposureStatic, Endpoints: endpoints}
	}
	require.NoError(t, CheckEndpoints(static("gw.example.org", "203.0.113.9")))
	require.ErrorContains(t, CheckEndpoints(static("203.0.113.9", "203.0.113.9:51847")), "203.0.113.9:51847")
	require.ErrorContains(t, CheckEndpoints(static("169.254.169.254")), "169.254.169.254")
	require.NoError(t, CheckEndpoints(v1alpha1.GatewaySpec{Endpoints: []string{"::1"}}), "not published, so not looked at")
}
