// SPDX-License-Identifier: Apache-2.0

package splice

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Quote writes a text so that the format's readers have it back.
func Quote(format Format, s string) string {
	if format == YAML && isPlain(s) {
		return s
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string can always be encoded
	quoted := strings.TrimSuffix(b.String(), "\n")
	// TOML and YAML know all escapes that package json writes, but want this one escaped too.
	return strings.ReplaceAll(quoted, "\x7f", `\u007f`)
}

// otherwise is what some reader of YAML takes for a truth, a number or nothing.
const otherwise = " y n yes no on off true false null nan inf "

// isPlain tells whether a text means itself without quotes, in lists of both kinds. "--" does,
// and "---" would end the document.
func isPlain(s string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	if s == "--" {
		return true
	}
	word := strings.TrimPrefix(s, "--")
	if word == "" || strings.IndexByte(letters+"/", word[0]) < 0 || strings.Trim(word, letters+"0123456789_./=-") != "" {
		return false
	}
	return !strings.Contains(otherwise, " "+strings.ToLower(word)+" ")
}

// FlowSafe tells whether a text without quotes means the same between the brackets of a list.
func FlowSafe(plain string) bool { return !strings.ContainsAny(plain, ",[]{}") }
