package supervisor

import (
	"container/list"
	"reflect"
	"strings"
	"sync"
	"unsafe"
)

// census counts what can be reached from some values: the lengths of all maps, slices, channels and lists
// together, by the type and field that hold them ("supervisor.loop.entries"), and the values of each
// type that pointers lead to ("*supervisor.entry"). It looks into healthd's own types, contexts and
// interfaces, and not into functions. Nobody may change anything meanwhile.
type census struct {
	sizes   map[string]int
	seen    map[seenValue]bool
	pending []pendingValue // what pointers lead to, so that long chains need no deep recursion
}

type pendingValue struct {
	v     reflect.Value
	where string
}

type seenValue struct {
	at unsafe.Pointer
	is reflect.Type
}

// takeCensus counts what the roots keep.
func takeCensus(roots ...any) map[string]int {
	c := &census{sizes: map[string]int{}, seen: map[seenValue]bool{}}
	for _, r := range roots {
		c.walk(reflect.ValueOf(r), "")
		for len(c.pending) > 0 {
			next := c.pending[len(c.pending)-1]
			c.pending = c.pending[:len(c.pending)-1]
			c.walk(next.v, next.where)
		}
	}
	return c.sizes
}

// walk counts v, which the field called where holds.
func (c *census) walk(v reflect.Value, where string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && hasOwn(v.Type()) && c.isNew(v) {
			c.sizes[v.Type().String()]++
			c.pending = append(c.pending, pendingValue{v.Elem(), where})
		}
	case reflect.Interface:
		c.walk(v.Elem(), where)
	case reflect.Struct:
		c.walkStruct(v, where)
	case reflect.Map:
		if c.isNew(v) {
			c.add(where, v.Len())
			c.walkMap(v, where)
		}
	case reflect.Slice:
		c.add(where, v.Len())
		c.walkElements(v, where)
	case reflect.Array:
		c.walkElements(v, where)
	case reflect.Chan:
		c.add(where, v.Len())
	}
}

func (c *census) add(where string, n int) {
	if n > 0 {
		c.sizes[where] += n
	}
}

// isNew says whether a pointer or map was not reached before.
func (c *census) isNew(v reflect.Value) bool {
	key := seenValue{v.UnsafePointer(), v.Type()}
	if c.seen[key] || v.IsNil() {
		return false
	}
	c.seen[key] = true
	return true
}

func (c *census) walkMap(v reflect.Value, where string) {
	keys, values := mayHold(v.Type().Key()), mayHold(v.Type().Elem())
	if !keys && !values {
		return
	}
	for entries := v.MapRange(); entries.Next(); {
		if keys {
			c.walk(entries.Key(), where+"[]")
		}
		if values {
			c.walk(entries.Value(), where+"[]")
		}
	}
}

func (c *census) walkElements(v reflect.Value, where string) {
	if !mayHold(v.Type().Elem()) {
		return
	}
	for i := range v.Len() {
		c.walk(v.Index(i), where+"[]")
	}
}

func (c *census) walkStruct(v reflect.Value, where string) {
	t := v.Type()
	switch {
	case t == reflect.TypeFor[sync.Map]() && v.CanAddr():
		n := 0
		(*sync.Map)(unsafe.Pointer(v.UnsafeAddr())).Range(func(key, value any) bool {
			n++
			c.walk(reflect.ValueOf(key), where+"[]")
			c.walk(reflect.ValueOf(value), where+"[]")
			return true
		})
		c.add(where, n)
	case t == reflect.TypeFor[list.List]() && v.CanAddr():
		l := (*list.List)(unsafe.Pointer(v.UnsafeAddr()))
		c.add(where, l.Len())
		for e := l.Front(); e != nil; e = e.Next() {
			c.walk(reflect.ValueOf(e.Value), where+"[]")
		}
	case isAtomicPointer(t):
		c.walk(reflect.NewAt(t.Field(0).Type.Elem().Elem(), v.FieldByName("v").UnsafePointer()), where)
	case strings.HasPrefix(t.String(), "supervisor.table["): // one map, in parts
		parts := v.FieldByName("parts")
		for i := range parts.Len() {
			c.walk(parts.Index(i), where)
		}
	case isOwn(t):
		for i := range t.NumField() {
			if mayHold(t.Field(i).Type) {
				c.walk(v.Field(i), t.String()+"."+t.Field(i).Name)
			}
		}
	}
}

// isAtomicPointer says whether t is an atomic.Pointer[T], whose first field is a [0]*T.
func isAtomicPointer(t reflect.Type) bool {
	return t.PkgPath() == "sync/atomic" && strings.HasPrefix(t.Name(), "Pointer[")
}

// isOwn says whether the census looks into a struct. A type without a name is part of another.
func isOwn(t reflect.Type) bool {
	switch path := t.PkgPath(); {
	case t.Name() == "", path == "context":
		return true
	default:
		isTest := strings.HasPrefix(t.Name(), "world") || strings.HasPrefix(t.Name(), "months")
		return strings.HasPrefix(path, "healthd/") && !isTest
	}
}

// hasOwn says whether the census follows a pointer of type t.
func hasOwn(t reflect.Type) bool {
	e := t.Elem()
	return e.Kind() != reflect.Struct || isOwn(e) || isAtomicPointer(e) || e == reflect.TypeFor[sync.Map]() || e == reflect.TypeFor[list.List]()
}

var holders sync.Map // reflect.Type → bool: what mayHold found

// mayHold says whether a value of type t may hold anything that grows.
func mayHold(t reflect.Type) bool {
	if known, ok := holders.Load(t); ok {
		return known.(bool)
	}
	found := false
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Chan, reflect.Interface:
		found = true
	case reflect.Pointer:
		found = hasOwn(t)
	case reflect.Array:
		found = mayHold(t.Elem())
	case reflect.Struct:
		found = t == reflect.TypeFor[sync.Map]() || t == reflect.TypeFor[list.List]() || isAtomicPointer(t)
		for i := 0; isOwn(t) && i < t.NumField() && !found; i++ {
			found = mayHold(t.Field(i).Type)
		}
	}
	holders.Store(t, found)
	return found
}
