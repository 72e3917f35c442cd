package containerd

import (
	"maps"
	"testing"

	eventtypes "github.com/containerd/containerd/api/events"
	containersapi "github.com/containerd/containerd/api/services/containers/v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// wire is a message's field with that number: text, an entry of a map, or another message.
func wire(number protowire.Number, parts ...string) []byte {
	var value []byte
	for _, part := range parts {
		value = append(value, part...)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

func label(key, value string) string {
	return string(wire(2, string(wire(1, key)), string(wire(2, value))))
}

// answer is a list of two containers, the second of them with the labels.
func answer(labels ...string) []byte {
	one, two := wire(1, string(wire(1, "one"))), []string{string(wire(1, "two"))}
	return append(one, wire(1, append(two, labels...)...)...)
}

func TestTextThatIsNotUTF8(t *testing.T) {
	for _, tt := range []struct {
		name   string
		labels []string
		want   map[string]string
	}{
		{"a value", []string{label("a", "x\xffy"), label("b", "ü")}, map[string]string{"a": "x\uFFFDy", "b": "ü"}},
		{"a name", []string{label("a\xff", "1")}, map[string]string{"a\uFFFD": "1"}},
		{"nothing but garbage", []string{label("\xff\xfe", "\xff")}, map[string]string{"\uFFFD": "\uFFFD"}},
		{"two of one name", []string{label("a\xff", "1"), label("a\xfe", "2")}, map[string]string{"a\uFFFD": "2"}},
		{"two of one name, otherwise sent", []string{label("a\xfe", "2"), label("a\xff", "1")}, map[string]string{"a\uFFFD": "2"}},
		{"one of them was so named", []string{label("a\uFFFD", "1"), label("a\xff", "2")}, map[string]string{"a\uFFFD": "1"}},
		{"one of them was so named, otherwise sent", []string{label("a\xff", "2"), label("a\uFFFD", "1")}, map[string]string{"a\uFFFD": "1"}},
		{"the image", []string{label("a", "1"), string(wire(3, "\xff"))}, map[string]string{"a": "1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got containersapi.ListContainersResponse
			if err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(answer(tt.labels...))}, &got); err != nil {
				t.Fatal(err)
			}
			if c := got.Containers; len(c) != 2 || c[0].ID != "one" || c[1].ID != "two" || !maps.Equal(c[1].Labels, tt.want) {
				t.Errorf("got %v, want %q", c, tt.want)
			}
		})
	}
}

func TestEventsWithTextThatIsNotUTF8(t *testing.T) {
	const name = "containerd.events.ContainerUpdate"
	update := append(wire(1, "web"), wire(3, string(wire(1, "a\xff")), string(wire(2, "1")))...)
	for _, tt := range []struct {
		name string
		any  *anypb.Any
		want proto.Message // nil: an error
	}{
		{"garbled", &anypb.Any{TypeUrl: name, Value: update}, &eventtypes.ContainerUpdate{ID: "web", Labels: map[string]string{"a\uFFFD": "1"}}},
		{"malformed", &anypb.Any{TypeUrl: name, Value: update[:len(update)-1]}, nil},
		{"of another type", &anypb.Any{TypeUrl: "nobody.Knows", Value: update}, nil},
		{"empty", nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := unmarshalEvent(tt.any)
			if (err == nil) != (tt.want != nil) || err == nil && !proto.Equal(got, tt.want) {
				t.Errorf("got %v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

// What can be read is read as ever. Whatever else an engine sends is read with valid text, or is
// an error.
func FuzzUnmarshal(f *testing.F) {
	for _, seed := range [][]byte{
		nil, answer(label("a", "1")), answer(label("a\xff", "1"), label("a\xfe", "\xff")), answer(string(wire(3, "\xff"))),
		answer(string(wire(5, "\xff"))), answer("\xff"), append(answer(label("\xff", "")), 0x0b, 0x0c), answer(label("a\xff", "1"))[:9],
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var want, got containersapi.ListContainersResponse
		before := string(b)
		cannot := proto.Unmarshal(b, &want)
		err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, &got)
		if string(b) != before {
			t.Errorf("%x has become %x", before, b)
		}
		if cannot == nil && (err != nil || !proto.Equal(&got, &want)) {
			t.Errorf("got %v, %v; want %v", &got, err, &want)
		}
		if err == nil {
			if _, err := proto.Marshal(&got); err != nil {
				t.Errorf("%v was taken: %v", &got, err)
			}
		}
	})
}
