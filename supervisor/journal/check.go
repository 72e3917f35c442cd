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

// bbolt trusts its file: a page that is its own child overflows the stack, and a wrong
// count allocates all memory. Both end the process and cannot be recovered, and would
// also end the next daemon. checkFile therefore checks every page that bbolt may follow,
// with reads that return errors, before bbolt opens the file.
// The format is version 2, which has not changed since 2014.

const (
	magic       = 0xED0CDAED
	format      = 2
	header      = 16 // size of a page's header, of an element and of a bucket's header
	branchPage  = 0x01
	leafPage    = 0x02
	freePage    = 0x10
	bucketLeaf  = 0x01
	minPageSize = 1 << 10
	maxPageSize = 1 << 24
)

// checkFile returns nil when bbolt can open the file safely, or the file is absent or
// empty. lastMayBeMissing says that the last transaction may be missing.
func checkFile(path string) (lastMayBeMissing bool, err error) {
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
	err = c.checkAll()
	return c.lastMayBeMissing, err
}

type checker struct {
	r                io.ReaderAt
	length           uint64
	pageSize         uint64
	lastMayBeMissing bool   // only one of the two heads is whole: the other may have been the newer
	used             []bool // pages that have an owner
}

// metaPage is the content of one of the two meta pages.
type metaPage struct{ pageSize, root, free, end, txid uint64 }

func (c *checker) checkAll() error {
	h, err := c.newestMetaPage()
	if err != nil {
		return err
	}
	if h.end < 4 || h.end > c.length/h.pageSize {
		return damagedError("it is cut off: it has %d bytes and should have %d pages of %d", c.length, h.end, h.pageSize)
	}
	c.pageSize, c.used = h.pageSize, make([]bool, h.end)
	c.used[0], c.used[1] = true, true
	if err := c.freeList(h.free); err != nil {
		return err
	}
	return c.tree(h.root, true, nil, nil)
}

// newestMetaPage returns the newer of the valid meta pages.
func (c *checker) newestMetaPage() (metaPage, error) {
	low, high := uint64(minPageSize), uint64(maxPageSize) // where the second one may be
	newest, ok := c.metaPageAt(0)
	c.lastMayBeMissing = true
	if ok {
		low, high = newest.pageSize, newest.pageSize
	}
	for size := low; size <= high; size *= 2 {
		h, valid := c.metaPageAt(size)
		if !valid || h.pageSize != size {
			continue
		}
		c.lastMayBeMissing = !ok
		if !ok || h.txid > newest.txid {
			newest, ok = h, true
		}
	}
	if !ok {
		return metaPage{}, damagedError("it has no valid beginning")
	}
	return newest, nil
}

func (c *checker) metaPageAt(at uint64) (metaPage, bool) {
	var b [64]byte
	if _, err := c.r.ReadAt(b[:], int64(at+header)); err != nil {
		return metaPage{}, false
	}
	u32 := func(at int) uint64 { return uint64(binary.NativeEndian.Uint32(b[at:])) }
	u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(b[at:]) }
	hash := fnv.New64a()
	hash.Write(b[:56])
	h := metaPage{pageSize: u32(8), root: u64(16), free: u64(32), end: u64(40), txid: u64(48)}
	return h, u32(0) == magic && u32(4) == format && u64(56) == hash.Sum64() &&
		h.pageSize >= minPageSize && h.pageSize <= maxPageSize
}

// page returns a page with its overflow pages, and marks them as used.
func (c *checker) page(id uint64) (*page, error) {
	end := uint64(len(c.used))
	if id >= end {
		return nil, damagedError("page %d is beyond its end", id)
	}
	var h [header]byte
	if _, err := c.r.ReadAt(h[:], int64(id*c.pageSize)); err != nil {
		return nil, err
	}
	overflow := uint64(binary.NativeEndian.Uint32(h[12:]))
	if said := binary.NativeEndian.Uint64(h[:]); said != id || id+overflow >= end {
		return nil, damagedError("page %d says it is %d and the %d after it", id, said, overflow)
	}
	for n := id; n <= id+overflow; n++ {
		if err := c.markUsed(n); err != nil {
			return nil, err
		}
	}
	data := make([]byte, (1+overflow)*c.pageSize)
	if _, err := c.r.ReadAt(data, int64(id*c.pageSize)); err != nil {
		return nil, err
	}
	return &page{id, data}, nil
}

func (c *checker) markUsed(id uint64) error {
	if id >= uint64(len(c.used)) || c.used[id] {
		return damagedError("page %d is used twice, or is none", id)
	}
	c.used[id] = true
	return nil
}

// freeList marks the free pages as used, so that no tree may contain them.
func (c *checker) freeList(id uint64) error {
	p, err := c.page(id)
	if err != nil {
		return err
	}
	list, count := p.data[header:], uint64(p.count())
	if count == 0xFFFF { // the list begins with the count
		count, list = binary.NativeEndian.Uint64(list), list[8:]
	}
	if p.flags() != freePage || count > uint64(len(list)/8) {
		return damagedError("page %d is no list of %d free pages", id, count)
	}
	for i := range count {
		if err := c.markUsed(binary.NativeEndian.Uint64(list[8*i:])); err != nil {
			return err
		}
	}
	return nil
}

// tree checks a page and all below it. Its first key must be low, and all must be below
// high; nil means no bound.
func (c *checker) tree(id uint64, root bool, low, high []byte) error {
	p, err := c.page(id)
	if err != nil {
		return err
	}
	if p.flags() == leafPage {
		return c.leaf(p, root, low, high)
	}
	if p.flags() != branchPage || p.count() == 0 {
		return damagedError("page %d is neither a branch nor a leaf", id)
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

// leaf checks a leaf. Elements of the root tree are buckets; those of others are not.
func (c *checker) leaf(p *page, root bool, low, high []byte) error {
	if _, err := p.keys(low, high); err != nil {
		return err
	}
	for i := range p.count() {
		at := header * (i + 1)
		if (p.u32(at) == bucketLeaf) != root || p.u32(at) > bucketLeaf {
			return damagedError("page %d: element %d is of another kind", p.id, i)
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

// bucket checks a bucket: a tree of its own, or a small one with its leaf in the value.
func (c *checker) bucket(id uint64, value []byte) error {
	if len(value) < header {
		return damagedError("page %d: a bucket is cut off", id)
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return c.tree(root, false, nil, nil)
	}
	p := &page{id, value[header:]}
	if len(p.data) < header || p.flags() != leafPage {
		return damagedError("page %d: a bucket in it is no leaf", id)
	}
	return c.leaf(p, false, nil, nil)
}

// page is the bytes of a page, at least its header.
type page struct {
	id   uint64
	data []byte
}

func (p *page) flags() int        { return int(binary.NativeEndian.Uint16(p.data[8:])) }
func (p *page) count() int        { return int(binary.NativeEndian.Uint16(p.data[10:])) }
func (p *page) u32(at int) int    { return int(binary.NativeEndian.Uint32(p.data[at:])) }
func (p *page) u64(at int) uint64 { return binary.NativeEndian.Uint64(p.data[at:]) }

// keys returns the keys of a branch or leaf, after checking that all elements are within
// the page and in order. The first key must be low, the page's key in the branch above,
// unless low is nil.
func (p *page) keys(low, high []byte) ([][]byte, error) {
	begin := header * (1 + p.count())
	if begin > len(p.data) {
		return nil, damagedError("page %d has %d elements", p.id, p.count())
	}
	if low != nil && p.count() == 0 {
		return nil, damagedError("page %d is empty", p.id)
	}
	keys := make([][]byte, 0, p.count())
	for at := header; at < begin; at += header {
		pos, size, value := p.u32(at), p.u32(at+4), 0
		if p.flags() == leafPage {
			pos, size, value = p.u32(at+4), p.u32(at+8), p.u32(at+12)
		}
		if at+pos < begin || size == 0 || at+pos+size+value > len(p.data) {
			return nil, damagedError("page %d has an element outside", p.id)
		}
		key := p.data[at+pos:][:size]
		order := bytes.Compare(key, low)
		if len(keys) == 0 && low != nil && order != 0 || len(keys) > 0 && order <= 0 || high != nil && bytes.Compare(key, high) >= 0 {
			return nil, damagedError("page %d is out of order", p.id)
		}
		keys, low = append(keys, key), key
	}
	return keys, nil
}

func damagedError(text string, args ...any) error {
	return fmt.Errorf("%w: %s", errDamaged, fmt.Sprintf(text, args...))
}
