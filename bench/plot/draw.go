package main

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

var (
	blue   = color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}
	orange = color.RGBA{R: 0xd9, G: 0x6b, B: 0x0b, A: 0xff}
	green  = color.RGBA{R: 0x2a, G: 0x7a, B: 0x3b, A: 0xff}
	red    = color.RGBA{R: 0xc0, G: 0x1c, B: 0x28, A: 0xff}
	gray   = color.RGBA{R: 0xb8, G: 0xbc, B: 0xc4, A: 0xff}
	pale   = color.RGBA{R: 0xee, G: 0xf0, B: 0xf3, A: 0xff}
	ink    = color.RGBA{R: 0x24, G: 0x29, B: 0x2f, A: 0xff}
)

// line is one line of a panel.
type line struct {
	column, name string // name is written beside the line; empty: the panel says it
	color        color.Color
}

// panels are drawn one below the other, over the same time.
var panels = []struct {
	label string
	lines []line
}{
	{"memory, MB", []line{{"resident_mb", "resident", blue}, {"heap_mb", "heap in use", orange}, {"live_mb", "live heap", green}}},
	{"goroutines", []line{{"goroutines", "", blue}}},
	{"descriptors", []line{{"descriptors", "", blue}}},
}

// marks are what happened to the whole host.
var marks = []struct {
	what, name string
	style      draw.LineStyle
}{
	{markReload, "reload of the configuration", draw.LineStyle{Color: gray, Width: 0.7}},
	{markEngine, "engine away, then back", draw.LineStyle{Color: red, Width: 1.2, Dashes: []vg.Length{4, 3}}},
}

const (
	width, height = 720, 560
	keyHeight     = 52 // of the title and the key
	titleSize     = 15
	labelSize     = 12
	smallSize     = 11
	warmUpShare   = 0.1 // of the time, which is not judged: as bench soak has it
)

// drawSVG draws the series. All axes of values begin at 0: what is flat looks flat, and nothing else does.
func drawSVG(w io.Writer, s *series) error {
	var rows [][]*plot.Plot
	for i := range panels {
		p, err := panel(s, i)
		if err != nil {
			return err
		}
		rows = append(rows, []*plot.Plot{p})
	}
	canvas := vgsvg.New(width, height)
	page := draw.New(canvas)
	page.SetColor(color.White)
	page.Fill(page.Rectangle.Path())
	drawKey(draw.Crop(page, 0, 0, height-keyHeight, 0), s.title)
	tiles := draw.Tiles{Rows: len(rows), Cols: 1, PadY: 12, PadBottom: 8, PadLeft: 10, PadRight: 20}
	for i, cells := range plot.Align(rows, tiles, draw.Crop(page, 0, 0, 0, -keyHeight)) {
		rows[i][0].Draw(cells[0])
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	// The library names one font. Where that is missing, these have letters of the same widths, and the last is no surprise.
	_, err := w.Write(bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")))
	return err
}

// drawKey draws the title and, below it, what the marks of all panels mean.
func drawKey(c draw.Canvas, title string) {
	const left, sample, gap = 52, 24, 22
	c.FillText(textStyle(titleSize, ink), vg.Point{X: left, Y: c.Max.Y - 24}, title)
	style, y := textStyle(smallSize, ink), c.Min.Y+8
	x := vg.Length(left)
	entry := func(name string, drawSample func(x vg.Length)) {
		drawSample(x)
		x += sample + 6
		c.FillText(style, vg.Point{X: x, Y: y - 4}, name)
		x += style.Width(name)*1.15 + gap // where another font is wider
	}
	entry("warm-up, not judged", func(x vg.Length) {
		c.SetColor(pale)
		c.Fill(vg.Rectangle{Min: vg.Point{X: x, Y: y - 5}, Max: vg.Point{X: x + sample, Y: y + 5}}.Path())
	})
	for _, m := range marks {
		entry(m.name, func(x vg.Length) { c.StrokeLine2(m.style, x, y, x+sample, y) })
	}
}

func panel(s *series, i int) (*plot.Plot, error) {
	p := plot.New()
	last := i == len(panels)-1
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle, axis.Tick.Label = textStyleOf(axis.Label.TextStyle, labelSize), textStyleOf(axis.Tick.Label, smallSize)
		axis.Color, axis.Tick.Color, axis.Padding = gray, gray, 0
	}
	p.Y.Label.Text, p.Y.Tick.Marker, p.X.Tick.Marker = panels[i].label, ticks{true}, ticks{last}
	if last {
		p.X.Label.Text = "minutes"
	}
	var lines []plot.Plotter
	top := 0.0
	for _, l := range panels[i].lines {
		points, ok := s.columns[l.column]
		if !ok {
			return nil, fmt.Errorf("there is no column %s", l.column)
		}
		for _, xy := range points {
			top = max(top, xy.Y)
		}
		drawn, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		drawn.LineStyle = draw.LineStyle{Color: l.color, Width: 1.4}
		lines = append(lines, drawn)
		if l.name != "" {
			name, err := nameOf(l, points)
			if err != nil {
				return nil, err
			}
			lines = append(lines, name)
		}
	}
	top = niceTop(top)
	if err := background(p, s, top); err != nil {
		return nil, err
	}
	p.Add(lines...)
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, s.minutes, 0, top
	return p, nil
}

// nameOf writes the name of a line above the highest point near its end.
func nameOf(l line, points plotter.XYs) (*plotter.Labels, error) {
	from := len(points) * 4 / 5
	at := plotter.XY{X: points[from].X}
	for _, xy := range points[from:] {
		at.Y = max(at.Y, xy.Y)
	}
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{at}, Labels: []string{l.name}})
	if err != nil {
		return nil, err
	}
	labels.TextStyle[0], labels.Offset = textStyle(labelSize, l.color), vg.Point{Y: 4}
	return labels, nil
}

// background draws the warm-up, a grid, and the marks.
func background(p *plot.Plot, s *series, top float64) error {
	end := s.minutes * warmUpShare
	area, err := plotter.NewPolygon(plotter.XYs{{X: 0, Y: 0}, {X: end, Y: 0}, {X: end, Y: top}, {X: 0, Y: top}})
	if err != nil {
		return err
	}
	area.Color, area.LineStyle.Width = pale, 0
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal = nil, draw.LineStyle{Color: pale, Width: 0.8}
	p.Add(area, grid)
	for _, m := range marks {
		for _, at := range s.marks[m.what] {
			drawn, err := plotter.NewLine(plotter.XYs{{X: at, Y: 0}, {X: at, Y: top}})
			if err != nil {
				return err
			}
			drawn.LineStyle = m.style
			p.Add(drawn)
		}
	}
	return nil
}

// ticks are the labelled ones of the library, with numbers as people write them, or without any.
type ticks struct{ labels bool }

// Ticks implements plot.Ticker.
func (t ticks) Ticks(from, to float64) (all []plot.Tick) {
	for _, tick := range (plot.DefaultTicks{}).Ticks(from, to) {
		switch {
		case tick.IsMinor():
		case t.labels:
			all = append(all, plot.Tick{Value: tick.Value, Label: strconv.FormatFloat(tick.Value, 'g', 6, 64)})
		default:
			all = append(all, plot.Tick{Value: tick.Value})
		}
	}
	return all
}

// niceTop returns a round number above the highest value, so that the line is not at the edge.
func niceTop(v float64) float64 {
	if v <= 0 {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(v))) / 2
	return math.Ceil(v*1.15/step) * step
}

func textStyle(size vg.Length, c color.Color) draw.TextStyle {
	s := textStyleOf(plot.New().Title.TextStyle, size)
	s.Color, s.XAlign, s.YAlign = c, draw.XLeft, draw.YBottom
	return s
}

// textStyleOf returns the same style in the font of the drawing.
func textStyleOf(s draw.TextStyle, size vg.Length) draw.TextStyle {
	s.Font, s.Color = font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}, ink
	return s
}
