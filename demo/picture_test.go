// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"testing"
)

// The README's picture is the one that the program draws from its figures.
func TestPictureIsCurrent(t *testing.T) {
	svg, err := os.ReadFile("../docs/session.svg")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`<!-- make session: (.*) -->`).FindSubmatch(svg)
	if m == nil {
		t.Fatal("the picture has no figures: make session")
	}
	var p picture
	if err := json.Unmarshal(m[1], &p); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(svg, p.svg()) {
		t.Error("the picture is not what demo draws: make session")
	}
}
