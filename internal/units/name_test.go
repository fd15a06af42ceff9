// SPDX-License-Identifier: Apache-2.0

package units

import (
	"strings"
	"testing"
)

func TestParseServiceName(t *testing.T) {
	for name, want := range map[string]string{
		"hermes-gateway": "hermes-gateway.service", "a@b.service": "a@b.service", "../a": "", "a/b": "", "": "", ".service": "", "a\nb": "", "é": "",
		strings.Repeat("x", 300): "",
	} {
		if got, err := ParseServiceName(name); got.Full != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
}
