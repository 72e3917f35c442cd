package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

const header = "# this & that\nseconds,resident_mb,heap_mb,live_mb,goroutines,descriptors,cpu_percent,journal_mb,marks\n"

func soakOf(samples int) string {
	var b strings.Builder
	b.WriteString(header)
	for i := range samples {
		marks := ""
		switch {
		case i%150 == 149:
			marks = "reload;engine"
		case i%15 == 14:
			marks = "reload"
		}
		fmt.Fprintf(&b, "%d.0,%d.25,31.5,22.5,%d,%d,12.3,8.4,%s\n", 2*i, 60+i%7, 20+i%5, 80+i%11, marks)
	}
	return b.String()
}

func TestDrawing(t *testing.T) {
	s, err := readSeries(strings.NewReader(soakOf(2000)))
	if err != nil {
		t.Fatal(err)
	}
	var svg bytes.Buffer
	if err := drawSVG(&svg, s); err != nil {
		t.Fatal(err)
	}
	if svg.Len() > 150_000 {
		t.Errorf("it has %d bytes", svg.Len())
	}
	for _, want := range []string{">this &amp; that<", ">memory, MB<", ">goroutines<", ">descriptors<", ">minutes<", ">engine away, then back<", ">reload of the configuration<", ">warm-up, not judged<", ">heap in use<", ">live heap<", ",sans-serif;"} {
		if !strings.Contains(svg.String(), want) {
			t.Errorf("there is no %s", want)
		}
	}
	for tokens := xml.NewDecoder(&svg); ; {
		if _, err := tokens.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("it is no XML: %v", err)
		}
	}
}

func TestSamplesAreRead(t *testing.T) {
	s, err := readSeries(strings.NewReader(soakOf(301) + "602.0,61"))
	if err != nil {
		t.Fatal(err)
	}
	if s.minutes != 10 || len(s.columns["goroutines"]) != 301 || len(s.marks[markReload]) != 20 || len(s.marks[markEngine]) != 2 {
		t.Errorf("%v minutes, %d samples, marks %v", s.minutes, len(s.columns["goroutines"]), s.marks)
	}
	for name, text := range map[string]string{
		"empty":        "",
		"no title":     "seconds,marks\n1,\n",
		"no samples":   header,
		"no time":      "resident_mb,marks\n1,\n",
		"not a number": header + "1.0,many,1,1,1,1,1,1,\n",
	} {
		if _, err := readSeries(strings.NewReader(text)); err == nil {
			t.Errorf("%s: it is read", name)
		}
	}
}

// No peak is lost.
func TestThin(t *testing.T) {
	s, err := readSeries(strings.NewReader(soakOf(5000) + "10000.0,900,31.5,22.5,20,80,12.3,8.4,\n"))
	if err != nil {
		t.Fatal(err)
	}
	points := s.columns["resident_mb"]
	if len(points) != mostPoints || points[mostPoints-1].Y != 900 {
		t.Errorf("%d points, the last is %v", len(points), points[len(points)-1])
	}
}
