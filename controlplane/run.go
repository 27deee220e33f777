// Package controlplane is weft-controller: it turns what people say of the
// fabric (FabricConfig, ForeignCluster) and what neighbors say over the peer
// channel into what agents need (FabricNode, Neighbor). It never sees a packet,
// and nothing that it has made is withdrawn because it is away.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/apis/patient"
	"github.com/weft-fabric/weft/controlplane/identity"
)

const (
	leaseName = "weft-controller"
	// retryStart is the pause while the API server cannot be reached at start.
	retryStart = 2 * time.Second
	// identityTry bounds one attempt, so that the log says what is waited for.
	identityTry = 5 * time.Second
	// A leader that lost the API server gives up before another may lead. An
	// outage shorter than renewDeadline, such as an upgrade of the API server,
	// goes by without a restart.
	leaseDuration    = 60 * time.Second
	renewDeadline    = 45 * time.Second
	retryPeriod      = 2 * time.Second
	shutdownDeadline = 5 * time.Second
)

// Options of Run.
type Options struct {
	// Kubeconfig names a file; empty means the pod's service account.
	Kubeconfig string
	// Namespace of Weft's Secrets and of the leader's Lease.
	Namespace string
	// ChannelBind is the TCP address that takes peer channels.
	ChannelBind string
	// PodName holds the Lease; empty means a new name each start.
	PodName string
	// PodIP is the address under which agents reach ChannelBind's port.
	PodIP string
	// MetricsBind and HealthBind are TCP addresses; "0" serves nothing.
	MetricsBind string
	HealthBind  string
	Log         *slog.Logger
}

// Run the controller until ctx ends or it is not the leader any more.
func Run(ctx context.Context, o Options) error {
	logger := logr.FromSlogHandler(o.Log.Handler())
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	endpoint, err := channelEndpoint(o.PodIP, o.ChannelBind)
	if err != nil {
		return err
	}
	config, err := patient.Load(o.Kubeconfig, "weft-controller")
	if err != nil {
		return err
	}
	// The bounds are for bursts of objects, such as at the start of a large cluster.
	config.QPS, config.Burst = 50, 100
	mgr, err := newManager(config, o)
	if err != nil {
		return err
	}
	if err := mgr.Add(lead(mgr, o, endpoint)); err != nil {
		return fmt.Errorf("set up the controllers: %w", err)
	}
	o.Log.Info("starting", "channelEndpoint", endpoint)
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the controllers: %w", err)
	}
	return nil
}

// lead adds the controllers once this process leads and knows who it is. The
// manager runs by then, so that the kubelet's probes are answered while the API
// server is away.
func lead(mgr ctrl.Manager, o Options, endpoint string) manager.Runnable {
	return manager.RunnableFunc(func(ctx context.Context) error {
		secrets := identity.Secrets{Reader: mgr.GetAPIReader(), Writer: mgr.GetClient(), Namespace: o.Namespace, Now: time.Now}
		self, err := awaitIdentity(ctx, secrets, o.Log)
		if err != nil {
			return nil // ctx has ended
		}
		o.Log.Info("leading", "identity", self.ID)
		return assemble(mgr, o, self, endpoint)
	})
}

func newManager(config *rest.Config, o Options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), mcsv1beta1.Install(scheme)); err != nil {
		return nil, fmt.Errorf("register the API types: %w", err)
	}
	lock, err := electionLock(config, o)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(patientConfig(config), ctrl.Options{
		Scheme:                        scheme,
		Logger:                        logr.FromSlogHandler(o.Log.Handler()),
		LeaderElection:                true,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,

		LeaderElectionResourceLockInterface: lock,
		LeaseDuration:                       new(leaseDuration),
		RenewDeadline:                       new(renewDeadline),
		RetryPeriod:                         new(retryPeriod),
		GracefulShutdownTimeout:             new(shutdownDeadline),
		Metrics:                             server.Options{BindAddress: o.MetricsBind},
		HealthProbeBindAddress:              o.HealthBind,
		Cache:                               cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
	})
	if err != nil {
		return nil, fmt.Errorf("set up the controllers: %w", err)
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping)); err != nil {
		return nil, fmt.Errorf("set up the health checks: %w", err)
	}
	return mgr, nil
}

// electionLock is held in the pod's name, so that a container that was killed
// leads again at once instead of waiting for its own Lease to run out. A pod
// runs one such process at a time.
func electionLock(config *rest.Config, o Options) (resourcelock.Interface, error) {
	if o.PodName == "" {
		return nil, nil
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.Namespace, leaseName,
		resourcelock.ResourceLockConfig{Identity: o.PodName}, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("set up the Lease %s: %w", leaseName, err)
	}
	return lock, nil
}

// patientConfig reads on as soon as an API server that was away is back.
func patientConfig(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(patient.Wrap)
	return config
}

// channelEndpoint is where agents reach this process.
func channelEndpoint(podIP, bind string) (string, error) {
	addr, err := netip.ParseAddr(podIP)
	if err != nil {
		return "", fmt.Errorf("read --pod-ip: %q is no address; set $POD_IP from the pod's status.podIP", podIP)
	}
	_, port, err := net.SplitHostPort(bind)
	if err != nil {
		return "", fmt.Errorf("read --channel-bind: %w", err)
	}
	return net.JoinHostPort(addr.String(), port), nil
}

// awaitIdentity reads or makes the Secrets. An API server that is away is waited
// for: exiting would only make the kubelet wait longer each time.
func awaitIdentity(ctx context.Context, secrets identity.Secrets, log *slog.Logger) (identity.Self, error) {
	for {
		self, err := readIdentity(ctx, secrets)
		if err == nil {
			return self, nil
		}
		log.Warn("the cluster's identity is not available; trying again", "error", err)
		select {
		case <-ctx.Done():
			return identity.Self{}, ctx.Err()
		case <-time.After(retryStart):
		}
	}
}

func readIdentity(ctx context.Context, secrets identity.Secrets) (identity.Self, error) {
	ctx, cancel := context.WithTimeout(ctx, identityTry)
	defer cancel()
	self, err := secrets.Identity(ctx)
	if err != nil {
		return self, err
	}
	return self, secrets.EnsureOverlay(ctx)
}

// fabricConfig returns the one FabricConfig, nil if there is none.
func fabricConfig(ctx context.Context, reader client.Reader) (*v1alpha1.FabricConfig, error) {
	var config v1alpha1.FabricConfig
	if err := reader.Get(ctx, client.ObjectKey{Name: v1alpha1.FabricConfigName}, &config); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return &config, nil
}
