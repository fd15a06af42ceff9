// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"strings"
	"testing"
)

func TestOrigin(t *testing.T) {
	env := []string{"KEY=secret", "CLAUDE_CODE_SESSION_ID=8a1f"}
	long := strings.Repeat("ü", 100)
	for dir, want := range map[string]string{
		"": "", "/": "", "/home/a/shop": "shop", "/home/a/my shop/": "my shop", "/x/" + long: strings.Repeat("ü", 32),
	} {
		got := OriginOf(dir, env)
		if got.Project != want || got.Conversation != "8a1f" {
			t.Errorf("%q: %+v", dir, got)
		}
	}
	if got := OriginOf("/a", nil); got.Conversation != "" {
		t.Errorf("%+v", got)
	}
}
