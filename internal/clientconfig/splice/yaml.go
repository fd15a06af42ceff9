// SPDX-License-Identifier: Apache-2.0

package splice

import "go.yaml.in/yaml/v3"

func parseYAML(data []byte) (*Node, error) {
	var file yaml.Node
	if yaml.Unmarshal(data, &file) != nil {
		return nil, malformed(YAML)
	}
	if len(file.Content) == 0 { // there are only comments
		return &Node{Kind: Map}, nil
	}
	return fromYAML(file.Content[0]), nil
}

// fromYAML does not follow aliases: a value can contain an alias of itself.
func fromYAML(y *yaml.Node) *Node {
	n := &Node{Kind: Other, Text: y.Value}
	switch {
	case y.Kind == yaml.MappingNode:
		n.Kind = Map
		for i := 0; i+1 < len(y.Content); i += 2 {
			n.Members = append(n.Members, Member{Name: y.Content[i].Value, Value: fromYAML(y.Content[i+1])})
		}
	case y.Kind == yaml.SequenceNode:
		n.Kind = List
		for _, item := range y.Content {
			n.Items = append(n.Items, fromYAML(item))
		}
	case y.Kind == yaml.ScalarNode && y.ShortTag() == "!!str":
		n.Kind = Text
	}
	return n
}
