// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Quote writes a text so that the readers of JSON, TOML and YAML have it back.
func Quote(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can always be encoded
	quoted := strings.TrimSuffix(b.String(), "\n")
	// TOML and YAML know all escapes that package json writes, but want this one escaped too.
	return strings.ReplaceAll(quoted, "\x7f", `\u007f`)
}
