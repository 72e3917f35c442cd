package docker

import (
	"errors"
	"io"

	"healthd/runtime"
)

// clipper passes on what an engine answers in JSON, without what is beyond the bounds of bounds.go and without the spaces
// around values. What is left is JSON. An object that had more strings than healthd reads gets the member
// runtime.LabelsClipped: such an object has labels.
type clipper struct {
	io.Closer
	from io.Reader
	err  error  // of from
	in   []byte // what is read from it
	rest []byte // of in: what is not clipped yet
	out  []byte // what is not passed on yet

	open    []level // the objects and lists around
	part    int     // index in open of the outermost object; -1: in none
	member  int     // bytes passed on of the present member of the part
	skipped int     // how many of open are left when the skipping ends; 0: nothing is skipped
	quoted  bool    // in a string
	escape  int     // in an escape of it: 1 at its beginning, else how many bytes are left of it, and 1
	text    int     // bytes of that string that are passed on
	cut     bool    // no more of them are
	word    int     // bytes of what is no string
}

// level is an object or a list that has begun.
type level struct {
	object  bool
	value   bool // of an object: the name of a member was read
	begun   bool // it has a member
	strings bool // one of its members is a string
	clipped bool // and there are more of them
	texts   int  // bytes of its strings
}

const maxDepth = 64

var (
	errTooDeep = errors.New("the engine's answer is nested too deeply")
	errNoJSON  = errors.New("the engine's answer is no JSON")
)

func newClipper(body io.ReadCloser) *clipper {
	return &clipper{Closer: body, from: body, in: make([]byte, 16<<10), part: -1}
}

// Read implements io.Reader.
func (c *clipper) Read(p []byte) (int, error) {
	for len(c.out) == 0 {
		if c.err != nil {
			return 0, c.err
		}
		var n int
		n, c.err = c.from.Read(c.in)
		c.rest = c.in[:n]
		if err := c.clip(); err != nil {
			c.err = err
		}
	}
	n := copy(p, c.out)
	c.out = c.out[:copy(c.out, c.out[n:])]
	return n, nil
}

// clip takes c.rest in.
func (c *clipper) clip() error {
	for len(c.rest) > 0 {
		if c.quoted {
			c.clipString()
			continue
		}
		b := c.rest[0]
		c.rest = c.rest[1:]
		if err := c.clipByte(b); err != nil {
			return err
		}
	}
	return nil
}

// clipByte takes in a byte that is in no string.
func (c *clipper) clipByte(b byte) error {
	switch b {
	case ' ', '\t', '\r', '\n', ',', ':', '}', ']':
		c.word = 0
		c.endOrSeparate(b)
		return nil
	case '"':
		c.begin(true)
		c.quoted, c.text, c.cut = true, 0, false
	case '{', '[':
		c.begin(false)
		if len(c.open) == maxDepth {
			return errTooDeep
		}
		if b == '{' && c.part < 0 {
			c.part = len(c.open)
		}
		c.open = append(c.open, level{object: b == '{'})
	default:
		if c.word == 0 {
			c.begin(false)
		}
		if c.word++; c.word > maxText {
			return errNoJSON
		}
	}
	c.pass(b)
	return nil
}

// begin begins a value, or the name of a member: a string, or not.
func (c *clipper) begin(text bool) {
	if len(c.open) == 0 || c.skipped > 0 {
		return
	}
	at := len(c.open) - 1
	l := &c.open[at]
	if !l.object || l.value {
		l.strings = l.strings || text
	}
	if l.value {
		return
	}
	if at == c.part {
		c.member = 0
	}
	if l.texts > maxTexts || at > c.part && c.part >= 0 && c.member > maxMember {
		c.skipped, l.clipped = len(c.open), true
		return
	}
	if l.begun {
		c.pass(',')
	}
	l.begun = true
}

// endOrSeparate takes in what is between values.
func (c *clipper) endOrSeparate(b byte) {
	if len(c.open) == 0 {
		c.pass(b)
		return
	}
	at := len(c.open) - 1
	l := &c.open[at]
	switch b {
	case ':':
		l.value = true
		c.pass(b)
	case ',': // begin passes it on
		l.value = false
	case '}', ']':
		if c.skipped == len(c.open) {
			c.skipped = 0
		}
		if l.clipped && l.object && l.strings {
			c.passAll([]byte(`,"` + runtime.LabelsClipped + `":""`))
		}
		c.pass(b)
		c.open = c.open[:at]
		if at == c.part {
			c.part = -1
		}
	}
}

// clipString takes in what there is of a string, up to its end.
func (c *clipper) clipString() {
	kept := 0
	if c.escape == 0 && !c.cut {
		for kept < len(c.rest) && c.rest[kept] != '"' && c.rest[kept] != '\\' && c.text < maxText {
			kept, c.text = kept+1, c.text+1
		}
	}
	for i := kept; i < len(c.rest); i++ {
		b := c.rest[i]
		whole := c.escape == 0
		switch {
		case c.escape == 1 && b == 'u':
			c.escape = 5
		case c.escape <= 2 && !whole:
			c.escape = 0
		case !whole:
			c.escape--
		case b == '"':
			c.passAll(c.rest[:kept])
			c.rest = c.rest[i+1:]
			c.endString()
			return
		case b == '\\':
			c.escape = 1
		}
		// An escape stays whole.
		if c.cut = c.cut || whole && c.text >= maxText; !c.cut {
			c.text, kept = c.text+1, i+1
		}
	}
	c.passAll(c.rest[:kept])
	c.rest = nil
}

func (c *clipper) endString() {
	c.quoted = false
	c.pass('"')
	if len(c.open) > 0 {
		c.open[len(c.open)-1].texts += c.text
	}
}

func (c *clipper) pass(b byte) {
	if c.skipped == 0 {
		c.out = append(c.out, b)
		c.member++
	}
}

func (c *clipper) passAll(b []byte) {
	if c.skipped == 0 {
		c.out = append(c.out, b...)
		c.member += len(b)
	}
}
