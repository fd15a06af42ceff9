// SPDX-License-Identifier: Apache-2.0

package remedy

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func TestOf(t *testing.T) {
	inner := With(fs.ErrPermission, "chown it")
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{With(nil, "a step without an error"), ""},
		{fs.ErrPermission, ""},
		{With(fs.ErrPermission, ""), ""},
		{inner, "chown it"},
		{fmt.Errorf("open: %w", inner), "chown it"},
		{errors.Join(fs.ErrExist, inner), "chown it"},
		{With(fmt.Errorf("open: %w", inner), "ask root"), "ask root"},
	} {
		if got := Of(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
	if err := With(fmt.Errorf("open: %w", inner), "ask root"); !errors.Is(err, fs.ErrPermission) || err.Error() != "open: permission denied" {
		t.Errorf("%v does not wrap its cause", err)
	}
}
