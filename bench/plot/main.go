// Command plot draws what bench soak has sampled: memory, goroutines and descriptors of healthd over time, and when its
// engine went away and its configuration changed.
//
//	go -C bench/plot run . -samples ../../bin/soak.csv -out ../../docs/images/soak.svg
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	samples := flag.String("samples", "", "file with the samples of bench soak, CSV")
	out := flag.String("out", "", "file for the drawing, SVG")
	flag.Parse()
	if err := plotFile(*samples, *out); err != nil {
		fmt.Fprintf(os.Stderr, "plot: %v\n", err)
		os.Exit(1)
	}
}

func plotFile(samples, out string) error {
	f, err := os.Open(samples)
	if err != nil {
		return err
	}
	defer f.Close()
	s, err := readSeries(f)
	if err != nil {
		return fmt.Errorf("%s: %w", samples, err)
	}
	var svg bytes.Buffer
	if err := drawSVG(&svg, s); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	return os.WriteFile(out, svg.Bytes(), 0o644)
}
