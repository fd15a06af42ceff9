// SPDX-License-Identifier: Apache-2.0

package page

import (
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"testing"
)

// A command does not read, nor write to, a page with fields in other places.
func TestLayout(t *testing.T) {
	const known = "e4d3e1b5b657f37e" // of LayoutNow: if this differs, raise that
	h := fnv.New64a()
	describe(h, reflect.TypeFor[Page](), "")
	if got := fmt.Sprintf("%x", h.Sum64()); got != known {
		t.Errorf("the layout of a page has changed: raise LayoutNow, and write %s here", got)
	}
	p, errno := New()
	if errno != 0 {
		t.Fatal(errno)
	}
	defer p.Close()
	if err := p.SetConfig([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(int(p.Memory)); err != nil {
		t.Error(err)
	}
	if err := RequestStop(int(p.Memory)); err != nil || !p.ByOthers.Stop {
		t.Errorf("asked: %t, %v", p.ByOthers.Stop, err)
	}
	p.ByOthers.Stop = false
	p.Layout++
	if _, err := Read(int(p.Memory)); !errors.Is(err, ErrLayout) {
		t.Errorf("another layout is read: %v", err)
	}
	if err := RequestStop(int(p.Memory)); !errors.Is(err, ErrLayout) || p.ByOthers.Stop {
		t.Errorf("another layout is written to: %t, %v", p.ByOthers.Stop, err)
	}
}

// describe writes the name, offset and kind of each field.
func describe(to interface{ Write([]byte) (int, error) }, of reflect.Type, at string) {
	fmt.Fprintln(to, at, of.Size(), of.Kind())
	switch of.Kind() {
	case reflect.Struct:
		for field := range of.Fields() {
			describe(to, field.Type, fmt.Sprint(at, ".", field.Name, "+", field.Offset))
		}
	case reflect.Array:
		describe(to, of.Elem(), at+"[]")
	}
}
