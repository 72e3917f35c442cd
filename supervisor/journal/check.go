package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
)

// bbolt trusts its file: a page that is its own child overflows the stack, and a
// wrong count takes all memory. Both end the process and cannot be recovered, and
// so would end each later daemon too. So every page that bbolt may follow is looked
// at before it does, with reads that fail decently.
// The format is version 2, which has not changed since 2014.

const (
	magic       = 0xED0CDAED
	format      = 2
	header      = 16 // of a page, and the size of an element and of a bucket's header
	branchPage  = 0x01
	leafPage    = 0x02
	freePage    = 0x10
	bucketLeaf  = 0x01
	minPageSize = 1 << 10
	maxPageSize = 1 << 24
)

// checkFile says whether bbolt may open the file. One that is absent or empty it
// may. It says too whether the last transaction may be missing.
func checkFile(path string) (older bool, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if info.Size() == 0 {
		return false, nil
	}
	c := &checker{r: f, length: uint64(info.Size())}
	err = c.check()
	return c.older, err
}

type checker struct {
	r        io.ReaderAt
	length   uint64
	pageSize uint64
	older    bool   // only one of the two heads is whole: the other may have been the newer
	used     []bool // pages that have an owner
}

// head is what a meta page says.
type head struct{ pageSize, root, free, end, txid uint64 }

func (c *checker) check() error {
	h, err := c.head()
	if err != nil {
		return err
	}
	if h.end < 4 || h.end > c.length/h.pageSize {
		return damaged("it is cut off: it has %d bytes and should have %d pages of %d", c.length, h.end, h.pageSize)
	}
	c.pageSize, c.used = h.pageSize, make([]bool, h.end)
	c.used[0], c.used[1] = true, true
	if err := c.freeList(h.free); err != nil {
		return err
	}
	return c.tree(h.root, true, nil, nil)
}

// head returns the newer one of the two meta pages, of those that are whole.
func (c *checker) head() (head, error) {
	low, high := uint64(minPageSize), uint64(maxPageSize) // where the second one may be
	newest, ok := c.headAt(0)
	c.older = true
	if ok {
		low, high = newest.pageSize, newest.pageSize
	}
	for size := low; size <= high; size *= 2 {
		h, valid := c.headAt(size)
		if !valid || h.pageSize != size {
			continue
		}
		c.older = !ok
		if !ok || h.txid > newest.txid {
			newest, ok = h, true
		}
	}
	if !ok {
		return head{}, damaged("it has no valid beginning")
	}
	return newest, nil
}

func (c *checker) headAt(at uint64) (head, bool) {
	var b [64]byte
	if _, err := c.r.ReadAt(b[:], int64(at+header)); err != nil {
		return head{}, false
	}
	u32 := func(at int) uint64 { return uint64(binary.NativeEndian.Uint32(b[at:])) }
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	hash := fnv.New64a()
	hash.Write(b[:56])
	h := head{pageSize: u32(8), root: u64(16), free: u64(32), end: u64(40), txid: u64(48)}
	return h, u32(0) == magic && u32(4) == format && u64(56) == hash.Sum64() &&
		h.pageSize >= minPageSize && h.pageSize <= maxPageSize
}

// page returns a page with what overflows of it, and makes it used.
func (c *checker) page(id uint64) (*page, error) {
	end := uint64(len(c.used))
	if id >= end {
		return nil, damaged("page %d is beyond its end", id)
	}
	var h [header]byte
	if _, err := c.r.ReadAt(h[:], int64(id*c.pageSize)); err != nil {
		return nil, err
	}
	overflow := uint64(binary.NativeEndian.Uint32(h[12:]))
	if said := binary.NativeEndian.Uint64(h[:]); said != id || id+overflow >= end {
		return nil, damaged("page %d says it is %d and the %d after it", id, said, overflow)
	}
	for n := id; n <= id+overflow; n++ {
		if err := c.use(n); err != nil {
			return nil, err
		}
	}
	data := make([]byte, (1+overflow)*c.pageSize)
	if _, err := c.r.ReadAt(data, int64(id*c.pageSize)); err != nil {
		return nil, err
	}
	return &page{id, data}, nil
}

func (c *checker) use(id uint64) error {
	if id >= uint64(len(c.used)) || c.used[id] {
		return damaged("page %d is used twice, or is none", id)
	}
	c.used[id] = true
	return nil
}

// freeList makes the free pages used, so that no tree may have them.
func (c *checker) freeList(id uint64) error {
	p, err := c.page(id)
	if err != nil {
		return err
	}
	list, count := p.data[header:], uint64(p.count())
	if count == 0xFFFF { // the true one comes first
		count, list = binary.NativeEndian.Uint64(list), list[8:]
	}
	if p.flags() != freePage || count > uint64(len(list)/8) {
		return damaged("page %d is no list of %d free pages", id, count)
	}
	for i := range count {
		if err := c.use(binary.NativeEndian.Uint64(list[8*i:])); err != nil {
			return err
		}
	}
	return nil
}

// tree walks down from a page, whose keys are to begin with low and be below high.
func (c *checker) tree(id uint64, root bool, low, high []byte) error {
	p, err := c.page(id)
	if err != nil {
		return err
	}
	if p.flags() == leafPage {
		return c.leaf(p, root, low, high)
	}
	if p.flags() != branchPage || p.count() == 0 {
		return damaged("page %d is neither a branch nor a leaf", id)
	}
	keys, err := p.keys(low, high)
	if err != nil {
		return err
	}
	for i, key := range keys {
		next := high
		if i+1 < len(keys) {
			next = keys[i+1]
		}
		if err := c.tree(p.u64(header*(i+1)+8), root, key, next); err != nil {
			return err
		}
	}
	return nil
}

// leaf looks at a leaf. That of the root holds buckets, the others hold none.
func (c *checker) leaf(p *page, root bool, low, high []byte) error {
	if _, err := p.keys(low, high); err != nil {
		return err
	}
	for i := range p.count() {
		at := header * (i + 1)
		if (p.u32(at) == bucketLeaf) != root || p.u32(at) > bucketLeaf {
			return damaged("page %d: element %d is of another kind", p.id, i)
		}
		if !root {
			continue
		}
		value := p.data[at+p.u32(at+4)+p.u32(at+8):][:p.u32(at+12)]
		if err := c.bucket(p.id, value); err != nil {
			return err
		}
	}
	return nil
}

// bucket looks at one, which is a tree, or in itself a leaf when it is small.
func (c *checker) bucket(id uint64, value []byte) error {
	if len(value) < header {
		return damaged("page %d: a bucket is cut off", id)
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return c.tree(root, false, nil, nil)
	}
	p := &page{id, value[header:]}
	if len(p.data) < header || p.flags() != leafPage {
		return damaged("page %d: a bucket in it is no leaf", id)
	}
	return c.leaf(p, false, nil, nil)
}

// page is a page's bytes, at least its header.
type page struct {
	id   uint64
	data []byte
}

func (p *page) flags() int        { return int(binary.NativeEndian.Uint16(p.data[8:])) }
func (p *page) count() int        { return int(binary.NativeEndian.Uint16(p.data[10:])) }
func (p *page) u32(at int) int    { return int(binary.NativeEndian.Uint32(p.data[at:])) }
func (p *page) u64(at int) uint64 { return binary.NativeEndian.Uint64(p.data[at:]) }

// keys returns the keys of a branch or leaf after it has seen that all elements are
// within the page and in order. The first is low, by which bbolt finds the page's
// place in the branch above; low is nil where there is none.
func (p *page) keys(low, high []byte) ([][]byte, error) {
	begin := header * (1 + p.count())
	if begin > len(p.data) {
		return nil, damaged("page %d has %d elements", p.id, p.count())
	}
	if low != nil && p.count() == 0 {
		return nil, damaged("page %d is empty", p.id)
	}
	keys := make([][]byte, 0, p.count())
	for at := header; at < begin; at += header {
		pos, size, value := p.u32(at), p.u32(at+4), 0
		if p.flags() == leafPage {
			pos, size, value = p.u32(at+4), p.u32(at+8), p.u32(at+12)
		}
		if at+pos < begin || size == 0 || at+pos+size+value > len(p.data) {
			return nil, damaged("page %d has an element outside", p.id)
		}
		key := p.data[at+pos:][:size]
		order := bytes.Compare(key, low)
		if len(keys) == 0 && low != nil && order != 0 || len(keys) > 0 && order <= 0 || high != nil && bytes.Compare(key, high) >= 0 {
			return nil, damaged("page %d is out of order", p.id)
		}
		keys, low = append(keys, key), key
	}
	return keys, nil
}

func damaged(text string, args ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(text, args...))
}
