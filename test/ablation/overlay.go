// SPDX-License-Identifier: Apache-2.0

package ablation

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// root is the module's, from this package.
const root = "../.."

// edit replaces a text that occurs once in a file of the product.
type edit struct {
	file string
	old  string
	new  string
}

// apply returns the files as they are with the edits made.
func apply(edits []edit) (map[string][]byte, error) {
	changed := map[string][]byte{}
	for _, e := range edits {
		text, again := changed[e.file]
		if !again {
			var err error
			if text, err = os.ReadFile(filepath.Join(root, e.file)); err != nil {
				return nil, err
			}
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			return nil, fmt.Errorf("%s has %q %d times, and it has to be once", e.file, e.old, n)
		}
		changed[e.file] = []byte(strings.Replace(string(text), e.old, e.new, 1))
	}
	return changed, nil
}

// writeOverlay writes the changed files into dir, and what go build -overlay reads.
func writeOverlay(dir string, edits []edit) (file string, err error) {
	changed, err := apply(edits)
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for name, text := range changed {
		original, err := filepath.Abs(filepath.Join(root, name))
		if err != nil {
			return "", err
		}
		copied := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(copied, text, 0o644); err != nil {
			return "", err
		}
		overlay.Replace[original] = copied
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o644)
}
