// SPDX-License-Identifier: Apache-2.0

package clientconfig

import (
	"regexp"
	"strings"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig/splice"
)

// words of a flag or a variable whose value is a secret.
const secretWords = `key token secret pass password passwd pwd auth authorization credential credentials
	cookie bearer header pat dsn signature`

var (
	// assigned is a name with a value: --api-key=…, TOKEN=…, ?token=…
	assigned = regexp.MustCompile(`([A-Za-z][\w.-]*)(=)([^\s&;'"]+)`)
	// header has a value of one or two words: Authorization: Bearer …
	header = regexp.MustCompile(`([A-Za-z][\w.-]*)(: ?)([^\s/'"][^\s'"]*( [^\s'"]+)?)`)
	// afterFlag is a flag with its value in a line for a shell, or of npx.
	afterFlag = regexp.MustCompile(`(--?[A-Za-z][\w-]*)( +)([^-\s]\S*)`)
	// camel is the place between two words in apiKey.
	camel = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	// login has the credentials of a URL.
	login = regexp.MustCompile(`(://)[^/@\s]+(@)`)
	// issued are the tokens that begin with the name of who has issued them: ghp_…, sk-…, xoxb-…
	issued = regexp.MustCompile(`\b(sk|pk|rk|gh[a-z]|github_pat|glpat|xox[a-z]|AKIA|AIza|ey[JK])[-_\w.]{12,}`)
	// random is a long text of letters and digits that no person has chosen.
	random = regexp.MustCompile(`[A-Za-z0-9+_]{24,}={0,2}`)
)

// WithoutSecrets returns a command line for other people: values that can be secrets are hidden as in a diff
// of wrap. It errs on the side of hiding.
func WithoutSecrets(argv []string) string {
	const most = 400 // bytes
	var words []string
	isValue := false // of the flag before
	for _, word := range argv {
		switch {
		case isValue && !strings.HasPrefix(word, "-"):
			words = append(words, splice.Masked)
		case word != "":
			words = append(words, quoted(hideSecrets(word)))
		}
		isValue = strings.HasPrefix(word, "-") && !strings.ContainsAny(word, "= ") && isSecretName(word)
	}
	line := cli.OneLine(strings.Join(words, " "))
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + splice.Masked
	}
	return line
}

// quoted is cli.Word, to which a hidden value is plain.
func quoted(word string) string {
	shown := strings.ReplaceAll(word, splice.Masked, "")
	if shown == cli.Word(shown) || shown == "" {
		return word
	}
	return cli.Word(word)
}

// hideSecrets hides what is a secret within a word, which can be a whole line.
func hideSecrets(word string) string {
	word = login.ReplaceAllString(word, "${1}"+splice.Masked+"${2}")
	for _, form := range []*regexp.Regexp{assigned, header, afterFlag} {
		word = form.ReplaceAllStringFunc(word, func(found string) string {
			parts := form.FindStringSubmatch(found)
			isVariable := form == assigned && parts[1] == strings.ToUpper(parts[1])
			if isVariable || isSecretName(parts[1]) {
				return parts[1] + parts[2] + splice.Masked
			}
			return found
		})
	}
	word = issued.ReplaceAllString(word, splice.Masked)
	return random.ReplaceAllStringFunc(word, func(found string) string {
		hasDigit := strings.ContainsAny(found, "0123456789")
		hasLetter := strings.ContainsAny(strings.ToLower(found), "abcdefghijklmnopqrstuvwxyz")
		if hasDigit && hasLetter {
			return splice.Masked
		}
		return found
	})
}

// isSecretName reports whether a flag or a variable has one of the words.
func isSecretName(name string) bool {
	isEnd := func(r rune) bool { return strings.ContainsRune("-_. ", r) }
	name = strings.ToLower(camel.ReplaceAllString(name, "${1}-${2}"))
	for _, part := range strings.FieldsFunc(name, isEnd) {
		for _, word := range strings.Fields(secretWords) {
			if part == word || strings.HasSuffix(part, word) && len(word) > 3 || part == "api"+word {
				return true
			}
		}
	}
	return false
}
