// SPDX-License-Identifier: Apache-2.0

package ablation

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// measured is where what has been measured is kept: it takes half an hour, and one that was interrupted goes on with
// make ablation CONTINUE=1.
const measured = root + "/.cache/ablation-measured"

// measure runs tests against a product with the edits, unless that was done before, with the same sources of the product.
func measure(runs []run, edits []edit) (o outcome, err error) {
	sources, err := product()
	if err != nil {
		return o, err
	}
	file := filepath.Join(measured, fmt.Sprintf("%x", sha256.Sum256(fmt.Append(sources, merged(runs), edits, patience.new))))
	if text, err := os.ReadFile(file); err == nil {
		return o, json.Unmarshal(text, &o)
	}
	if o, err = try(runs, edits); err != nil {
		return o, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return o, err
	}
	return o, errors.Join(os.MkdirAll(measured, 0o755), os.WriteFile(file, text, 0o644))
}

// product is a sum of all that is built into it.
func product() ([]byte, error) {
	sum := sha256.New()
	for _, dir := range []string{"cgroup", "freeze", "scope", "internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return sum.Sum(nil), nil
}
