// SPDX-License-Identifier: Apache-2.0

package text

import "testing"

func TestCounted(t *testing.T) {
	for _, c := range []struct {
		n    int
		noun string
		want string
	}{
		{0, "server", "0 servers"}, {1, "server", "1 server"}, {2, "server", "2 servers"},
		{1, "other process", "1 other process"}, {2, "other process", "2 other processes"},
	} {
		if got := Counted(c.n, c.noun); got != c.want {
			t.Errorf("%d %s: %q, want %q", c.n, c.noun, got, c.want)
		}
	}
}
