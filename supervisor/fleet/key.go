package fleet

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"healthd/supervisor"
)

// The version of the layout. Another one that old daemons misread gets another name, so that both may live in one store.
const layout = "v1/"

const (
	maxName   = 255                  // bytes of a name in a key or a value
	maxHost   = 64                   // bytes of a host's name
	maxKey    = 4 << 10              // bytes of a key below the prefix
	maxPlaces = supervisor.MaxPlaces // of a group: one transaction takes the first free one
)

// kind is what a key is about.
type kind string

// The kinds of keys.
const (
	hostKey   kind = "hosts"
	memberKey kind = "members"
	wordKey   kind = "words"
	placeKey  kind = "places"
	holdKey   kind = "holds"
)

// key is a key of the store, below PREFIX/v1/:
//
//	hosts/HOST
//	members/SERVICE/HOST/CONTAINER
//	words/HOST/CONTAINER/BALANCER     what the host BALANCER says of a container of HOST
//	places/GROUP/N
//	holds/SERVICE
type key struct {
	kind      kind
	service   string
	host      string
	container string
	balancer  string
	group     string
	n         int
}

var errKey = errors.New("it is no key of healthd's")

// String returns the key as it is below PREFIX/v1/. parseKey reads it.
func (k key) String() string {
	parts := []string{string(k.kind)}
	switch k.kind {
	case hostKey:
		parts = append(parts, escape(k.host))
	case memberKey:
		parts = append(parts, escape(k.service), escape(k.host), escape(k.container))
	case wordKey:
		parts = append(parts, escape(k.host), escape(k.container), escape(k.balancer))
	case placeKey:
		parts = append(parts, escape(k.group), strconv.Itoa(k.n))
	case holdKey:
		parts = append(parts, escape(k.service))
	}
	return strings.Join(parts, "/")
}

// parseKey reads what String writes, and nothing else: no two texts are one key.
func parseKey(text string) (key, error) {
	if len(text) > maxKey {
		return key{}, errKey
	}
	parts := strings.Split(text, "/")
	k := key{kind: kind(parts[0])}
	for i, part := range parts[1:] {
		plain, err := unescape(part)
		if err != nil {
			return key{}, err
		}
		parts[i+1] = plain
	}
	if err := k.take(parts[1:]); err != nil {
		return key{}, err
	}
	return k, k.check()
}

func (k *key) take(parts []string) error {
	want := map[kind]int{hostKey: 1, memberKey: 3, wordKey: 3, placeKey: 2, holdKey: 1}[k.kind]
	if want == 0 || len(parts) != want {
		return errKey
	}
	switch k.kind {
	case hostKey:
		k.host = parts[0]
	case memberKey:
		k.service, k.host, k.container = parts[0], parts[1], parts[2]
	case wordKey:
		k.host, k.container, k.balancer = parts[0], parts[1], parts[2]
	case placeKey:
		n, err := strconv.Atoi(parts[1])
		if err != nil || strconv.Itoa(n) != parts[1] {
			return errKey
		}
		k.group, k.n = parts[0], n
	case holdKey:
		k.service = parts[0]
	}
	return nil
}

// check says what is wrong with the names of a key.
func (k key) check() error {
	switch k.kind {
	case hostKey:
		return checkHost(k.host)
	case memberKey:
		return errors.Join(checkName("service", k.service), checkHost(k.host), checkName("container", k.container))
	case wordKey:
		return errors.Join(checkHost(k.host), checkName("container", k.container), checkHost(k.balancer))
	case placeKey:
		if k.n < 0 || k.n >= maxPlaces {
			return errKey
		}
		return checkName("group", k.group)
	case holdKey:
		return checkName("service", k.service)
	}
	return errKey
}

// checkHost says what is wrong with the name of a host of the fleet.
func checkHost(name string) error {
	if name == "" || len(name) > maxHost || name == "id" || strings.Trim(name, hostLetters) != "" {
		return fmt.Errorf("%q is no name of a host", name)
	}
	return nil
}

const hostLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

// checkName says what is wrong with a name that a host gives to something.
func checkName(what, name string) error {
	if name == "" || len(name) > maxName || !printable(name) {
		return fmt.Errorf("%q is no name of a %s", name, what)
	}
	return nil
}

func printable(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// emptyPart is an empty part of a key, which would else be two slashes.
const emptyPart = "%"

func isPlain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~", c) >= 0
}

func escape(part string) string {
	const digits = "0123456789ABCDEF"
	if part == "" {
		return emptyPart
	}
	var b strings.Builder
	for _, c := range []byte(part) {
		if isPlain(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

func unescape(part string) (string, error) {
	if part == emptyPart {
		return "", nil
	}
	var b strings.Builder
	for i := 0; i < len(part); i++ {
		if part[i] != '%' {
			b.WriteByte(part[i])
			continue
		}
		if i+3 > len(part) {
			return "", errKey
		}
		c, err := strconv.ParseUint(part[i+1:i+3], 16, 8)
		if err != nil {
			return "", errKey
		}
		b.WriteByte(byte(c))
		i += 2
	}
	if escape(b.String()) != part {
		return "", errKey // another way to write it, or an empty part
	}
	return b.String(), nil
}
