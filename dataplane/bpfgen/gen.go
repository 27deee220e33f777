// Package bpfgen holds the compiled programs of bpf/ and the Go types of
// their ABI, both made by bpf2go.
package bpfgen

//go:generate go tool bpf2go -tags linux -target bpfel -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3" Border ../../bpf/border.bpf.c -- -I../../bpf -I/usr/include/x86_64-linux-gnu
//go:generate go tool bpf2go -tags linux -target bpfel -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3" -no-global-types Overlay ../../bpf/overlay.bpf.c -- -I../../bpf -I/usr/include/x86_64-linux-gnu
