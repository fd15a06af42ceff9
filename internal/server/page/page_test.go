// SPDX-License-Identifier: Apache-2.0

package page

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"
)

// A command does not read, nor write to, a page with fields in other places.
func TestLayout(t *testing.T) {
	const known = "d799d4932e977526" // of LayoutNow: if this differs, raise that
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

// A guard that lives is not dead for a process that has no descriptor for it: a watcher would fork another one.
func TestAttachWithoutDescriptors(t *testing.T) {
	p, errno := New()
	if errno != 0 {
		t.Fatal(errno)
	}
	defer p.Close()
	p.ByGuard.GuardPID = int32(os.Getppid())
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) // it can't fail
	none := unix.Rlimit{Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	_, err := Attach(p, -1)
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) // for other tests
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ESRCH) {
		t.Errorf("it says %v", err)
	}
	p.ByGuard.GuardPID++
	if _, err := Attach(p, -1); !errors.Is(err, unix.ESRCH) {
		t.Errorf("of a guard that is dead: %v", err)
	}
}
