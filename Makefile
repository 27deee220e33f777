# Weft's build. `make help` lists what there is to do. Everything runs on a
# Debian machine with Go; system packages are installed by `make setup`, which
# every target that needs them calls.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
.DELETE_ON_ERROR:

GO ?= go
# JOBS bounds the compilers that run at the same time. The product and
# Kubernetes share one build cache, so the flags that enter its keys (CGO,
# -trimpath, tags) must be the same here and in tools/lab.
JOBS ?= 2
export CGO_ENABLED = 0

IMAGE ?= weft.dev/weft:dev
TRAFFIC_IMAGE ?= weft.dev/traffic:dev
LAB_ARGS ?=

# The system packages that build, lab and tests need, and who needs them.
PACKAGES_BUILD := clang llvm libbpf-dev linux-libc-dev protobuf-compiler
PACKAGES_LAB := etcd-server containerd runc containernetworking-plugins
PACKAGES_NETWORK := iproute2 iptables nftables conntrack ethtool iputils-ping
PACKAGES_TOOLS := git procps util-linux mount diffutils
# For nslookup in the test program's image: BusyBox is what its name says it is.
PACKAGES_IMAGE := busybox-static
PACKAGES := $(PACKAGES_BUILD) $(PACKAGES_LAB) $(PACKAGES_NETWORK) $(PACKAGES_TOOLS) $(PACKAGES_IMAGE)
# The committed BPF objects come from this major version of clang (Debian 12).
CLANG_VERSION := 14

# Programs: those in the image, and those that run on the build machine.
IMAGE_PROGRAMS := weft-agent weft-wireguard weft-controller weft-dns weftctl

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install the system packages that are missing (Debian, root or sudo)
	@PACKAGES="$(PACKAGES)" bash tools/setup.sh

.PHONY: build
build: ## build every program into bin/
	@mkdir -p bin
	$(GO) build -p $(JOBS) -ldflags "-s -w" -o bin/ $$(tools/mains.sh)
	@ln -sf weftctl bin/kubectl-weft

.PHONY: images
images: build ## pack the programs into out/weft.tar and out/traffic.tar
	@$(GO) run ./tools/image -tag $(IMAGE) -output out/weft.tar \
	  $(foreach p,$(IMAGE_PROGRAMS),bin/$(p)=/usr/local/bin/$(p))
	@PACKAGES="$(PACKAGES_IMAGE)" bash tools/setup.sh
	@$(GO) run ./tools/image -tag $(TRAFFIC_IMAGE) -output out/traffic.tar -entrypoint /traffic \
	  bin/traffic=/traffic /bin/busybox=/bin/nslookup
	@ls -l out/weft.tar out/traffic.tar

.PHONY: chart
chart: build ## pack the Helm chart into out/
	bin/weftctl chart --directory out

.PHONY: codegen-tools
codegen-tools:
	@mkdir -p bin/tools
	@$(GO) build -C tools/codegen -p $(JOBS) -o "$(CURDIR)/bin/tools/" tool

.PHONY: generate
generate: setup codegen-tools ## regenerate deepcopy, CRDs, protobufs and BPF objects
	@TOOLS="$(CURDIR)/bin/tools" GO="$(GO)" CLANG_VERSION=$(CLANG_VERSION) bash tools/codegen/generate.sh

.PHONY: check
check: setup codegen-tools ## gofmt, go vet, staticcheck, generated files up to date
	@TOOLS="$(CURDIR)/bin/tools" GO="$(GO)" JOBS=$(JOBS) CLANG_VERSION=$(CLANG_VERSION) bash tools/codegen/check.sh

.PHONY: test
test: test-unit test-program test-topology test-e2e ## every test, the quick ones first

.PHONY: test-unit
test-unit: setup ## unit tests
	$(GO) test -p $(JOBS) $$($(GO) list ./... | grep -v '^github.com/weft-fabric/weft/test/')

.PHONY: test-program
test-program: setup ## BPF programs on packets, compared byte for byte
	$(GO) test -p 1 -count=1 ./test/program/...

.PHONY: test-topology
test-topology: setup build ## data plane between network namespaces
	$(GO) test -p 1 -count=1 -timeout 20m -v ./test/topology/...

.PHONY: test-e2e
test-e2e: setup images ## one end-to-end run in the lab
	$(GO) test -p 1 -count=1 -timeout 50m -v ./test/e2e/...

.PHONY: test-e2e-full
test-e2e-full: setup images ## every end-to-end case (long): NAT, other CIDRs, restarts, dead peers
	WEFT_E2E_FULL=1 $(GO) test -p 1 -count=1 -timeout 120m -v ./test/e2e/...

.PHONY: demo
demo: setup images ## three clusters with equal CIDRs, a hub, a direct link, every pair of pods tried
	$(GO) run ./tools/demo up

.PHONY: demo-down
demo-down: ## remove everything that the demo made
	$(GO) run ./tools/demo down

.PHONY: lab-up
lab-up: setup build ## start the lab alone: make lab-up LAB_ARGS="--clusters 2 --nodes 2"
	bin/lab up $(LAB_ARGS)

.PHONY: lab-load
lab-load: images ## load both images into every cluster of the lab
	bin/lab load-image out/weft.tar
	bin/lab load-image out/traffic.tar

.PHONY: lab-status
lab-status: ## show the lab
	bin/lab status

.PHONY: lab-down
lab-down: ## remove the lab
	bin/lab down

.PHONY: clean
clean: ## remove bin/ and out/
	rm -rf bin out
