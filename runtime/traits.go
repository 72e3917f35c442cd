package runtime

import "regexp"

// Traits are what a container is chosen by. All of a container's inspection shows them; a list or an
// event may not know its image.
type Traits struct {
	Name   string
	Image  string // as given when it was created; empty: not known, or the engine does not say
	Labels map[string]string
	Self   bool // healthd itself runs in it
}

// MaxLabels is how many bytes of a container's labels healthd reads. A container may be made with any number of them.
const MaxLabels = 256 << 10

// LabelsClipped is the name of a label that a container with more than MaxLabels seems to have.
const LabelsClipped = "healthd-labels-clipped"

// Traits returns what the container is chosen by.
func (c *Container) Traits() Traits {
	return Traits{Name: c.Name, Image: c.Image, Labels: c.Labels, Self: c.Self}
}

// imageID is what a list has in the place of an image's name when that name now means another image.
var imageID = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Traits returns what the list says of them. Docker lists the image's ID once its name means
// another image: the image is then not known here, and an inspection tells.
func (s Summary) Traits() Traits {
	t := Traits{Name: ClipName(s.Name), Image: s.Image, Labels: s.Labels, Self: s.Self}
	if imageID.MatchString(s.Image) {
		t.Image = ""
	}
	return t
}

func (ev Event) traits() Traits {
	return Traits{Name: ClipName(ev.Name), Image: ev.Image, Labels: ev.Labels}
}
