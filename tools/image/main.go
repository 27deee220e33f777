// Command image packs static binaries into a container image archive in the
// format of `docker save`, which containerd, Docker and `lab load-image`
// import. The same binaries always give the same bytes: no time, owner or
// build host enters the archive.
//
//	image -tag weft.dev/weft:dev -output out/weft.tar bin/weft-agent=/usr/local/bin/weft-agent ...
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	tag := flag.String("tag", "", "name and tag of the image, such as weft.dev/weft:dev")
	output := flag.String("output", "", "archive to write")
	entrypoint := flag.String("entrypoint", "", "program that the image runs by default; empty for none")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: image -tag NAME:TAG -output FILE [-entrypoint PATH] SOURCE=TARGET...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *tag == "" || *output == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*tag, *output, *entrypoint, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(tag, output, entrypoint string, args []string) error {
	var files []File
	for _, arg := range args {
		source, target, ok := strings.Cut(arg, "=")
		if !ok || !strings.HasPrefix(target, "/") {
			return fmt.Errorf("%q must be SOURCE=TARGET with an absolute target, such as bin/weftctl=/usr/local/bin/weftctl", arg)
		}
		files = append(files, File{Source: source, Target: target})
	}
	img, err := Build(files, entrypoint)
	if err != nil {
		return fmt.Errorf("build image %s: %w", tag, err)
	}
	if err := Write(output, tag, img); err != nil {
		return fmt.Errorf("write image %s to %s: %w", tag, output, err)
	}
	return nil
}
