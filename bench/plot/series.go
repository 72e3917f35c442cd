package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot/plotter"
)

// mostPoints is how many points a line has at most.
const mostPoints = 600

// series are the samples of a soak by column, over minutes.
type series struct {
	title   string // what was measured
	columns map[string]plotter.XYs
	marks   map[string][]float64 // when something happened, by what it was
	minutes float64              // of the last sample
}

// Columns and marks of the file, as bench writes them.
const (
	timeColumn  = "seconds"
	marksColumn = "marks"
	markEngine  = "engine"
	markReload  = "reload"
)

// readSeries reads the file that bench soak writes: "# " and what was measured, then CSV. The last line of one that broke off
// does not count.
func readSeries(r io.Reader) (*series, error) {
	lines := bufio.NewReader(r)
	title, err := lines.ReadString('\n')
	title, ok := strings.CutPrefix(strings.TrimSpace(title), "# ")
	if err != nil || !ok {
		return nil, errors.Join(errors.New("the first line must be # and a title"), err)
	}
	in := csv.NewReader(lines)
	header, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("cannot read the names of the columns: %w", err)
	}
	at, marks := slices.Index(header, timeColumn), slices.Index(header, marksColumn)
	if at < 0 || marks < 0 {
		return nil, fmt.Errorf("there must be columns %s and %s: there are %q", timeColumn, marksColumn, header)
	}
	s := &series{title: title, columns: map[string]plotter.XYs{}, marks: map[string][]float64{}}
	for {
		row, err := in.Read()
		if err == io.EOF || errors.Is(err, csv.ErrFieldCount) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := s.add(header, row, at, marks); err != nil {
			return nil, err
		}
	}
	for name, points := range s.columns {
		s.columns[name] = thin(points)
	}
	if s.minutes == 0 {
		return nil, errors.New("there are no samples")
	}
	return s, nil
}

func (s *series) add(header, row []string, at, marks int) error {
	seconds, err := strconv.ParseFloat(row[at], 64)
	if err != nil {
		return err
	}
	s.minutes = seconds / 60
	for i, text := range row {
		switch {
		case i == at:
		case i == marks && text != "":
			for what := range strings.SplitSeq(text, ";") {
				s.marks[what] = append(s.marks[what], s.minutes)
			}
		case i != marks:
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return fmt.Errorf("%s: %w", header[i], err)
			}
			s.columns[header[i]] = append(s.columns[header[i]], plotter.XY{X: s.minutes, Y: v})
		}
	}
	return nil
}

// thin keeps the highest point of each stretch, so that no peak is lost.
func thin(points plotter.XYs) plotter.XYs {
	if len(points) <= mostPoints {
		return points
	}
	var kept plotter.XYs
	for i := range mostPoints {
		stretch := points[i*len(points)/mostPoints : (i+1)*len(points)/mostPoints]
		kept = append(kept, slices.MaxFunc(stretch, func(a, b plotter.XY) int {
			switch {
			case a.Y < b.Y:
				return -1
			case a.Y > b.Y:
				return 1
			}
			return 0
		}))
	}
	return kept
}
