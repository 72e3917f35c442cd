package supervisor

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
)

// A table has what a map has, whatever was set and removed.
func TestTableIsAMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var got table[string, int]
	want := map[string]int{}
	for i := range 20000 {
		key := fmt.Sprint(rnd.IntN(3000))
		if rnd.IntN(3) == 0 {
			got.remove(key)
			delete(want, key)
		} else {
			got.set(key, i)
			want[key] = i
		}
		value, found := got.get(key)
		if wantValue, wantFound := want[key]; value != wantValue || found != wantFound {
			t.Fatalf("%s is %d, %v; want %d, %v", key, value, found, wantValue, wantFound)
		}
	}
	if all := maps.Collect(got.all); !maps.Equal(all, want) {
		t.Errorf("got %d entries, want %d", len(all), len(want))
	}
	for key := range want {
		got.remove(key)
	}
	for i := range got.parts {
		if got.parts[i].Load() != nil {
			t.Error("an empty part takes memory")
		}
	}
}

// Readers see each key that nobody touches, and an end when they want one, while the loop writes others.
func TestTableIsReadMeanwhile(t *testing.T) {
	var shared table[int, int]
	for i := range 100 {
		shared.set(i, i)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				there := 0
				for k, v := range shared.all {
					if k < 100 && k == v {
						there++
					}
				}
				if _, found := shared.get(7); there != 100 || !found {
					t.Errorf("%d of 100 are there, one of them: %v", there, found)
				}
				for range shared.all {
					break
				}
			}
		})
	}
	for i := range 20000 {
		shared.set(100+i%500, i)
		shared.remove(100 + (i*7)%500)
	}
	wg.Wait()
}

// BenchmarkTableSet adds and removes one of 10,000.
func BenchmarkTableSet(b *testing.B) {
	var t table[string, int]
	keys := make([]string, 10000)
	for i := range keys {
		keys[i] = fmt.Sprintf("%064x", i)
		t.set(keys[i], i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		t.remove(keys[i%len(keys)])
		t.set(keys[i%len(keys)], i)
	}
}
