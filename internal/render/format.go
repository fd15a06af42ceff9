// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"text/template"
	"time"

	"github.com/mcpscope/mcpscope/internal/cli"
)

// Format prints servers by a template of a user.
type Format struct{ template *template.Template }

// ParseFormat reads a Go template, in which \t and \n stand for a tab and a new line. It refuses a field that
// servers do not have, even if no server runs.
func ParseFormat(text string) (*Format, error) {
	text = strings.NewReplacer(`\t`, "\t", `\n`, "\n").Replace(text)
	functions := template.FuncMap{"size": sizeText, "duration": HumanSeconds, "json": jsonText}
	parsed, err := template.New("format").Funcs(functions).Parse(text)
	if err != nil {
		return nil, err
	}
	f := &Format{template: parsed}
	err = f.Write(io.Discard, []Server{exampleOfAll()})
	if found := unknownField.FindStringSubmatch(fmt.Sprint(err)); found != nil {
		return nil, fmt.Errorf("there is no field %q", found[1])
	}
	return f, err
}

// unknownField is in the text of text/template, which has no type for this error.
var unknownField = regexp.MustCompile(`can't evaluate field (\w+) in type`)

// exampleOfAll is a server whose figures are all known: a template may use each of them.
func exampleOfAll() Server {
	var date time.Time
	var size uint64
	v := Server{Started: &date, Ended: &date}
	v.Memory = &size
	v.Peak = &size
	v.IdleSince = &date
	return v
}

// Write prints a line for each server.
func (f *Format) Write(out io.Writer, servers []Server) error {
	var text bytes.Buffer
	for _, v := range servers {
		if err := f.template.Execute(&text, v.printable()); err != nil {
			return err
		}
		text.WriteByte('\n')
	}
	_, err := out.Write(text.Bytes())
	return err
}

// printable returns the server without characters that control a terminal: others have chosen its names, and
// any process can have written the cause into the journal.
func (v Server) printable() Server {
	for _, text := range []*string{
		&v.Name, &v.Client.Name, &v.ClientUnit, &v.Project, &v.Conversation, &v.Group, &v.Unit,
		(*string)(&v.Cause), (*string)(&v.Backend),
	} {
		*text = cli.OneLine(*text)
	}
	return v
}

// sizeText is a size as tables have it, and "-" if it is not known.
func sizeText(size any) (string, error) {
	switch n := size.(type) {
	case uint64:
		return cli.HumanBytes(n), nil
	case *uint64:
		if n == nil {
			return "-", nil
		}
		return cli.HumanBytes(*n), nil
	}
	return "", fmt.Errorf("%v is no size", size)
}

func jsonText(v any) (string, error) {
	text, err := JSON(v, "")
	return strings.TrimSuffix(string(text), "\n"), err
}
