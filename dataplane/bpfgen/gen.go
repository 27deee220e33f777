// Package bpfgen holds the compiled programs of bpf/ and the Go side of their
// ABI: types by bpf2go, constants and reasons by the generator in constants.
package bpfgen

//go:generate go tool bpf2go -tags linux -target bpfel -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3" -type weft_probe Border ../../bpf/border.bpf.c -- -I../../bpf -I/usr/include/x86_64-linux-gnu
//go:generate go tool bpf2go -tags linux -target bpfel -cc clang -cflags "-O2 -g -Wall -Werror -mcpu=v3" -no-global-types Overlay ../../bpf/overlay.bpf.c -- -I../../bpf -I/usr/include/x86_64-linux-gnu
//go:generate go run ./constants ../../bpf/lib constants_gen.go
