package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Kinds that are sent and never kept, so that no definition tells of them.
var sent = []schema.GroupVersionKind{
	{Version: "v1", Kind: "DeleteOptions"},
	{Group: "authentication.k8s.io", Version: "v1", Kind: "SelfSubjectReview"},
	{Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectAccessReview"},
	{Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectRulesReview"},
}

// wire prints, for each kind, its type, and for each type its fields: number, name in JSON and type. A type begins with
// "*" where nothing is something else than zero, with "[]" or "{}" where there are several.
func wire(definitions map[string]definition) error {
	kinds := sent
	for _, definition := range definitions {
		kinds = append(kinds, definition.Kinds...)
	}
	types, roots := map[string]reflect.Type{}, map[string]string{}
	for _, kind := range kinds {
		// Definitions of kinds are sent as JSON by every client: they hold any value.
		if kind.Group == "apiextensions.k8s.io" {
			continue
		}
		object, err := scheme.Scheme.New(kind)
		if err != nil {
			return err
		}
		root := reflect.TypeOf(object).Elem()
		collect(root, types)
		roots[kind.GroupVersion().String()+"/"+kind.Kind] = named(root)
	}
	lines := []string{}
	for name, t := range types {
		fields := [][]any{}
		for field := range t.Fields() {
			said := strings.Split(field.Tag.Get("protobuf"), ",")
			if len(said) < 2 || field.Tag.Get("json") == "-" {
				continue
			}
			var number int
			if _, err := fmt.Sscan(said[1], &number); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			json, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			fields = append(fields, []any{number, json, typed(field.Type)})
		}
		if len(fields) == 0 {
			continue
		}
		line, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%q:%s", name, line))
	}
	slices.Sort(lines)
	all, err := json.Marshal(roots)
	if err != nil {
		return err
	}
	fmt.Printf("{\"kinds\":%s,\n\"types\":{\n%s\n}}\n", all, strings.Join(lines, ",\n"))
	return nil
}

func typed(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + typed(t.Elem())
	case reflect.Map:
		return "{}" + typed(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		// A list with a name is a message of its own on the wire.
		if t.PkgPath() != "" {
			return "items " + typed(t.Elem())
		}
		return "[]" + typed(t.Elem())
	case reflect.Struct:
		return named(t)
	case reflect.Bool:
		return "bool"
	case reflect.String:
		return "string"
	default:
		return "int"
	}
}
