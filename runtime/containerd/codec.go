package containerd

import (
	"bytes"
	"slices"

	"github.com/containerd/typeurl/v2"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// containerd 1.6 takes labels that are not UTF-8, and Go's protobuf reads no message with such
// text: one container would hide all others. Here such text is read, too.

// maxNesting bounds the messages inside each other. containerd's have a few.
const maxNesting = 32

// replacement stands for what is not UTF-8, as in the answers of Docker.
const replacement = "\uFFFD"

// codec is gRPC's own, but for answers with text that is not UTF-8.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name)} }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	if m, ok := v.(proto.Message); ok && err != nil {
		return unmarshalMended(data.Materialize(), m, err)
	}
	return err
}

// unmarshalEvent returns the message of an event.
func unmarshalEvent(event typeurl.Any) (proto.Message, error) {
	t, err := protoregistry.GlobalTypes.FindMessageByURL(event.GetTypeUrl())
	if err != nil {
		return nil, err
	}
	m := t.New().Interface()
	if err := proto.Unmarshal(event.GetValue(), m); err != nil {
		return m, unmarshalMended(event.GetValue(), m, err)
	}
	return m, nil
}

// unmarshalMended reads what could not be read because of why, which stays the error where that
// was not the text.
func unmarshalMended(b []byte, m proto.Message, why error) error {
	mended, ok := mend(b, m.ProtoReflect().Descriptor(), maxNesting)
	if !ok || bytes.Equal(mended, b) {
		return why
	}
	return proto.Unmarshal(mended, m)
}

// mend returns a message of the kind with all its text UTF-8; not ok: it is malformed. Groups, and
// fields that the kind does not have, stay as they are.
func mend(b []byte, kind protoreflect.MessageDescriptor, depth int) (mended []byte, ok bool) {
	if depth == 0 {
		return nil, false
	}
	var entries [][]byte // of maps, changed
	rest := make([]byte, 0, len(b))
	for len(b) > 0 {
		number, wireType, size := protowire.ConsumeField(b)
		if size < 0 {
			return nil, false
		}
		whole := b[:size]
		b = b[size:]
		field := kind.Fields().ByNumber(number)
		if field == nil || wireType != protowire.BytesType {
			rest = append(rest, whole...)
			continue
		}
		now, ok := mendField(whole, field, depth)
		if !ok {
			return nil, false
		}
		if field.IsMap() && !bytes.Equal(now, whole) {
			entries = append(entries, now)
		} else {
			rest = append(rest, now...)
		}
	}
	// Two labels may now have one name, and then the last one counts. containerd sends them in any
	// order: one that could be read is to win, and among the others always the same one.
	slices.SortFunc(entries, bytes.Compare)
	return append(bytes.Join(entries, nil), rest...), true
}

// mendField is mend for one field with its tag.
func mendField(whole []byte, field protoreflect.FieldDescriptor, depth int) (mended []byte, ok bool) {
	_, _, tag := protowire.ConsumeTag(whole)
	value, _ := protowire.ConsumeBytes(whole[tag:])
	switch field.Kind() {
	case protoreflect.StringKind:
		value = bytes.ToValidUTF8(value, []byte(replacement))
	case protoreflect.MessageKind:
		if value, ok = mend(value, field.Message(), depth-1); !ok {
			return nil, false
		}
	default:
		return whole, true
	}
	return protowire.AppendBytes(slices.Clone(whole[:tag]), value), true
}
