// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpscope/mcpscope/internal/cli"
	"github.com/mcpscope/mcpscope/internal/clientconfig"
	"github.com/mcpscope/mcpscope/internal/doctor"
	"github.com/mcpscope/mcpscope/internal/render"
	"github.com/mcpscope/mcpscope/internal/settings"
)

func configCommand(stdio cli.Stdio) *cobra.Command {
	json := false
	c := command(spec{
		use: "config [NAME] [flags]", short: "print the settings and their sources", also: "settings",
		operands: servers,
		examples: `  mcpscope config
  mcpscope config git --json
`,
		long: `Print the settings that a server gets without flags, and where each comes from:
the default, the line of a file, or an environment variable of this shell. With
NAME, print those of servers of that name, and then the flags and variables that
clients' files give them, which override the others. Without NAME, the sections
[server."PATTERN"] and [client.NAME] follow. See 'man mcpscope.toml'.

Mistakes in files and variables are on stderr, and the exit status is then 1. A
section for a server that is neither configured nor running gets a note.`,
	}, func(operands []string) int { return showConfig(operands, json, stdio) })
	c.Flags().BoolVar(&json, "json", false, "print one JSON object")
	return c
}

// configView is the JSON of the settings; fields are only added.
type configView struct {
	Version  int           `json:"version"`
	Settings []settingView `json:"settings"`
	Problems []string      `json:"problems,omitempty"`
	Notes    []string      `json:"notes,omitempty"`
}

// settingView is one setting. Its value is a truth value, a text or a list; it is absent without one.
type settingView struct {
	Key      string `json:"key"`
	Value    any    `json:"value,omitempty"`
	Source   string `json:"source"` // default, file, environment or client
	Variable string `json:"variable,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`

	texts []string
	shown string // the source as people read it
}

func showConfig(operands []string, json bool, stdio cli.Stdio) int {
	if len(operands) > 1 {
		return stdio.Mistake("config", "only one name is possible")
	}
	files := settings.ReadFiles()
	name := strings.Join(operands, "")
	effective, problems := files.Effective(name, os.Getenv)
	for _, e := range files.OfServers() {
		if name == "" || e.Client != "" { // which client starts the server is not known here
			effective = append(effective, e)
		}
	}
	view := configView{Version: 1}
	search := clientconfig.NewSearch()
	for _, e := range effective {
		view.Settings = append(view.Settings, viewOfSetting(&e))
	}
	if name == "" {
		view.Settings = append(view.Settings, viewsOfClients(files.Clients)...)
	} else {
		view.Settings = append(view.Settings, viewsInClientFiles(name, search)...)
	}
	view.Notes = doctor.UnmatchedSections(files, search)
	if name != "" {
		view.Notes = append(view.Notes, doctor.UnknownServer(name, search)...)
	}
	for _, p := range files.Problems {
		problems = append(problems, p)
	}
	for _, p := range problems {
		view.Problems = append(view.Problems, cli.ErrorLine(p))
	}
	status := cli.ExitOK
	if len(problems) > 0 {
		status = cli.ExitFailure
	}
	if json {
		return max(status, printJSON(stdio, "print the settings", view))
	}
	view.writeTable(stdio)
	return status
}

// writeTable writes the problems to stderr, as doctor has them.
func (v *configView) writeTable(stdio cli.Stdio) {
	rows := [][]string{{"SETTING", "VALUE", "SOURCE"}}
	for _, s := range v.Settings {
		value := "-"
		if len(s.texts) > 0 {
			value = strings.Join(s.texts, ", ")
		}
		rows = append(rows, []string{s.Key, value, s.shown})
	}
	render.WriteTable(stdio.Out, rows)
	for _, p := range v.Problems {
		fmt.Fprintf(stdio.Err, "mcpscope: %s\n", p)
	}
	for _, note := range v.Notes {
		stdio.Note(note)
	}
}

func viewOfSetting(e *settings.Effective) settingView {
	v := settingView{
		Key: e.Row.Name, Source: "default", Variable: e.Variable, File: e.File, Line: e.Line,
		texts: e.Texts, shown: e.Source(),
	}
	if e.Pattern != "" {
		v.Key = fmt.Sprintf("server.%q.%s", e.Pattern, e.Row.Name)
	}
	if e.Client != "" {
		v.Key = fmt.Sprintf("client.%s.%s", e.Client, e.Row.Name)
	}
	switch {
	case e.Variable != "":
		v.Source = "environment"
	case e.File != "":
		v.Source = "file"
	}
	switch {
	case e.Row.List && len(e.Texts) > 0:
		v.Value = e.Texts
	case e.Row.Switch():
		on, err := strconv.ParseBool(e.Texts[0])
		if err == nil { // otherwise it is a problem
			v.Value = on
		}
	case len(e.Texts) > 0:
		v.Value = e.Texts[0]
	}
	return v
}

// viewsInClientFiles have the flags and variables in clients' files, which come before all other settings.
func viewsInClientFiles(server string, search *clientconfig.Search) (views []settingView) {
	found, _ := search.Everywhere() // no file, without a directory to look in
	for _, s := range found.SettingsOf(server) {
		views = append(views, settingView{
			Key: s.Flag + s.Variable, Value: s.Value, Source: "client", File: s.File, Line: s.Line,
			texts: []string{s.Value}, shown: cli.OneLine(fmt.Sprintf("%s:%d", s.File, s.Line)),
		})
	}
	return views
}

// viewsOfClients have the files of [client.NAME].
func viewsOfClients(clients []settings.ClientFile) (views []settingView) {
	for _, c := range clients {
		views = append(views, settingView{
			Key: "client." + c.Name + ".path", Value: c.Path, Source: "file", File: c.File, Line: c.Line,
			texts: []string{c.Path}, shown: fmt.Sprintf("%s:%d", c.File, c.Line),
		})
	}
	return views
}
