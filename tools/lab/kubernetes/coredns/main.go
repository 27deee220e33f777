// Command coredns is CoreDNS with the plugins that a lab cluster uses, which
// builds in a fraction of the time that all of them take.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() {
	// The order in which a query passes the plugins, outermost first.
	dnsserver.Directives = []string{"errors", "health", "ready", "reload", "cache", "kubernetes", "forward"}
	coremain.Run()
}
