// SPDX-License-Identifier: Apache-2.0

// Package schema makes the JSON schema of mcpscope.toml, from the table of settings. Editors complete and
// check the file by it. It refuses unknown tables and keys, and values of another type, as mcpscope does.
package schema

import (
	"github.com/mcpscope/mcpscope/internal/settings"
)

// object is a JSON object.
type object map[string]any

// Make returns the schema as an object for package json. taplo and VS Code read draft 7.
func Make() any {
	ofServers := closed(keys(false))
	ofServers["description"] = "settings of one server"
	ofDefaults := closed(keys(true))
	ofDefaults["description"] = "settings of all servers"
	ofClient := closed(ofClientFile())
	ofClient["description"] = "a client that mcpscope wrap does not know"
	ofClient["required"] = []string{"path"}
	file := closed(object{
		"defaults": ofDefaults,
		"server": object{
			"type": "object", "additionalProperties": ofServers,
			"description": "settings by the name of a server, with * and ?; the most specific table wins",
		},
		"client": object{
			"type": "object", "additionalProperties": ofClient,
			"propertyNames": object{"pattern": "^[A-Za-z0-9_-]+$"},
			"description":   "configurations for mcpscope wrap, by the name of a client",
		},
	})
	file["$schema"] = "http://json-schema.org/draft-07/schema#"
	file["title"] = "mcpscope.toml"
	return file
}

// closed is a table that has these keys alone.
func closed(properties object) object {
	return object{"type": "object", "additionalProperties": false, "properties": properties}
}

// keys returns the schema of each key in a table of settings. Only [defaults] has keys of a whole gateway.
func keys(withWhole bool) object {
	properties := object{}
	for _, row := range settings.Rows(settings.Run | settings.Gateway) {
		isInTable := row.Where&settings.File != 0 && (withWhole || !row.Whole)
		if isInTable {
			properties[row.Name] = ofRow(row)
		}
	}
	return properties
}

func ofRow(row *settings.Row) object {
	value := object{"description": row.Help}
	switch {
	case row.List:
		value["type"] = "array"
		value["items"] = object{"type": "string"}
		return value
	case row.Switch():
		value["type"] = "boolean"
		value["default"] = row.Default == "true"
		return value
	case row.Only:
		value["enum"] = row.Values
	default: // a number without a unit may have no quotes
		value["type"] = []string{"string", "integer"}
		if len(row.Values) > 0 {
			value["examples"] = row.Values
		}
	}
	if row.Default != "" {
		value["default"] = row.Default
	}
	return value
}

// ofClientFile are the keys of [client.NAME].
func ofClientFile() object {
	return object{
		"path": object{
			"type": "string", "minLength": 1,
			"description": "the file: absolute, below ~/, or below a project",
		},
		"format": object{
			"enum":        settings.ClientFormats(),
			"description": "the format of a file whose name does not end so",
		},
		"servers": object{
			"type": "array", "minItems": 1, "items": object{"type": "string", "minLength": 1},
			"default":     []string{"mcpServers"},
			"description": "the keys on the way to the servers",
		},
	}
}
