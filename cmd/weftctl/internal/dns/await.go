package dns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/weft-fabric/weft/apis/net/v1alpha1"
	"github.com/weft-fabric/weft/cmd/weftctl/internal/wait"
)

// awaitAnswers waits until pods get right answers alone from the cluster's DNS.
// The kubelet brings a changed ConfigMap to CoreDNS within a minute or so, and
// the plugin reload reads it half a minute later.
func awaitAnswers(ctx context.Context, c client.Client, ask Asker, limit time.Duration, written edited, progress wait.Progress) error {
	local, err := nodeLocal(ctx, c)
	if err != nil {
		return err
	}
	hint := advice(fullName(written.configMap), written.file.Reloads(), local)
	if !written.file.Reloads() {
		progress("this CoreDNS does not read its configuration again by itself; " + hint)
	}
	err = wait.Until(ctx, limit, progress, func(ctx context.Context) (string, error) {
		answers, err := askAll(ctx, c, ask)
		if err != nil {
			return "", err
		}
		if wrong := pending(answers); wrong != "" {
			return awaited(answers, written.file.Reloads()), errors.New(wrong)
		}
		return "", nil
	})
	var late *wait.TimeoutError
	if errors.As(err, &late) {
		return fmt.Errorf("the block is in the Corefile, but the cluster's DNS does not answer for the zone: %w; %s", late, hint)
	}
	return err
}

// awaited says what comes next where not every answer is right. Until CoreDNS
// has read its configuration again, wrong answers are what it has to give.
func awaited(answers []Answer, reloads bool) string {
	asked, right, unasked := 0, 0, ""
	for _, answer := range answers {
		if answer.Report == nil {
			unasked = answer.Pod
			continue
		}
		asked, right = asked+answer.Report.Asked, right+answer.Report.Right
	}
	switch {
	case len(answers) == 0:
		return "waiting for a pod of weft-dns to be ready"
	case unasked != "":
		return "waiting for the API server to reach pod " + unasked
	case !reloads:
		return fmt.Sprintf("waiting for CoreDNS to be restarted: %d of %d test questions are answered so far", right, asked)
	}
	return fmt.Sprintf("waiting for CoreDNS to reload its configuration, which takes up to two minutes: %d of %d test questions are answered so far", right, asked)
}

// advice says what to do where the Corefile is right and the answers are not.
func advice(configMap string, reloads, nodeLocal bool) string {
	text := "look at the logs of CoreDNS, which says why if it cannot read its configuration, and of weft-dns in namespace " + v1alpha1.SystemNamespace
	if !reloads {
		text = "restart CoreDNS, such as by `kubectl -n kube-system rollout restart deployment coredns`, or add the plugin reload to its Corefile"
	}
	if nodeLocal {
		text += "; pods here ask NodeLocal DNSCache first: give its ConfigMap kube-system/" + nodeLocalName + " a block of the zone that forwards to the address of the cluster's DNS"
	}
	return text + "; `weftctl dns check` asks again (ConfigMap " + configMap + ")"
}
