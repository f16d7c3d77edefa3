package admission

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/weir-project/weir/pkg/domain/admit"
	"github.com/weir-project/weir/pkg/domain/ladder"
	"github.com/weir-project/weir/pkg/domain/money"
)

// schemas collects the schemas of wire.go's structs under the names of their types.
type schemas struct {
	strict bool
	all    doc
}

// ref describes the type of v and refers to it. A request is closed: its decoder refuses members that it does not know.
func (s *schemas) ref(v any, request bool) doc { return s.of(reflect.TypeOf(v), "", request) }

// of describes a type; name is the member that has it.
func (s *schemas) of(t reflect.Type, name string, request bool) doc {
	switch t {
	case reflect.TypeFor[money.USD](), reflect.TypeFor[nanoUSD]():
		if request {
			return limitSchema()
		}
		return doc{"type": "string", "pattern": `^-?[0-9]+(\.[0-9]+)?$`, "description": "US dollars."}
	case reflect.TypeFor[ladder.Rung]():
		return doc{"type": "integer", "minimum": 0, "maximum": 4}
	case reflect.TypeFor[quantities]():
		return quantitiesSchema(name)
	case reflect.TypeFor[json.RawMessage]():
		return doc{"description": "The provider's own usage object or response."}
	case reflect.TypeFor[batchRequest]():
		return s.batch(t)
	case reflect.TypeFor[anyObject]():
		return doc{"type": "object"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(s.of(t.Elem(), name, request))
	case reflect.Struct:
		return s.named(t, request)
	case reflect.Slice:
		return doc{"type": "array", "items": s.of(t.Elem(), "", request)}
	case reflect.Map:
		return doc{"type": "object", "additionalProperties": s.of(t.Elem(), "", request)}
	case reflect.Bool:
		return doc{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		if request {
			return count(name)
		}
		return doc{"type": "integer"}
	case reflect.Interface:
		return doc{"type": []string{"string", "integer"}, "description": "Dollars for windows and max_cost_usd, else a count."}
	default:
		return text(name)
	}
}

// limitPattern is the grammar of what pkg/domain/money reads, without the sign that no limit has.
const limitPattern = `^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$`

func limitSchema() doc {
	return doc{"type": "string", "pattern": limitPattern, "description": limitRule + "."}
}

// parameter describes one of a query, which means what the member of that name means.
func parameter(name string) doc {
	switch name {
	case "max_cost_usd":
		return limitSchema()
	case "max_depth":
		return count(name)
	default:
		return text(name)
	}
}

// quantitiesSchema describes an estimate or meters; those of an estimate have counts of their own names.
func quantitiesSchema(name string) doc {
	out := doc{"type": []string{"object", "null"}, "additionalProperties": doc{"type": []string{"number", "string"}}, "description": "Quantities by the name of their meter."}
	if name != "estimate" {
		return out
	}
	tokens := func(description string) doc {
		d := doc{"type": []string{"integer", "string"}, "minimum": 0, "maximum": admit.Unlimited}
		if description != "" {
			d["description"] = description
		}
		return d
	}
	const most = "0 is as if it were not given: the model's own maximum. Of several names the largest counts."
	out["properties"] = doc{"input_tokens": tokens(""), "max_output_tokens": tokens(most), "max_completion_tokens": tokens(most),
		"max_tokens": tokens(most), "output_tokens": tokens(most)}
	return out
}

// count is a whole number of a request, by its name.
func count(name string) doc {
	switch name {
	case "lease_seconds":
		return doc{"type": "integer", "minimum": 0, "maximum": 86400, "description": "1 to 86400, cut to the service's -max-lease; 0, or none, is that longest."}
	case "max_depth":
		return doc{"type": "integer", "minimum": 1, "maximum": maxMaxDepth}
	default:
		return doc{"type": "integer", "minimum": 0, "maximum": admit.Unlimited}
	}
}

// nullable is a schema, or null.
func nullable(d doc) doc {
	if kind, ok := d["type"].(string); ok {
		d["type"] = []string{kind, "null"}
		return d
	}
	return doc{"anyOf": []doc{d, {"type": "null"}}}
}

func (s *schemas) named(t reflect.Type, request bool) doc {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if _, known := s.all[name]; known {
		return doc{"$ref": "#/components/schemas/" + name}
	}
	out := doc{"type": "object"}
	s.all[name] = out // before its members, which may lead back here
	members, required := doc{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		member, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if member == "-" || !f.IsExported() {
			continue
		}
		optional := strings.Contains(options, "omitempty")
		kind := f.Type
		if optional && kind.Kind() == reflect.Pointer { // left out, never null
			kind = kind.Elem()
		}
		members[member] = s.of(kind, member, request)
		if !request && !optional || request && slices.Contains(needed(name), member) {
			required = append(required, member)
		}
	}
	out["properties"] = members
	if len(required) > 0 {
		slices.Sort(required)
		out["required"] = required
	}
	if request || s.strict {
		out["additionalProperties"] = false
	}
	return doc{"$ref": "#/components/schemas/" + name}
}

// batch is the body whose members are decoded one by one.
func (s *schemas) batch(t reflect.Type) doc {
	s.all["BatchRequest"] = doc{"type": "object", "additionalProperties": false, "required": []string{"reservations"}, "properties": doc{
		"reservations": doc{"type": "array", "minItems": 1, "maxItems": maxBatch, "items": s.of(reflect.TypeFor[reserveRequest](), "", true)},
	}}
	return doc{"$ref": "#/components/schemas/" + strings.ToUpper(t.Name()[:1]) + t.Name()[1:]}
}

// problem is the schema of every refusal, with the codes that there are.
func (s *schemas) problem() {
	s.of(reflect.TypeFor[Problem](), "", false)
	members := s.all["Problem"].(doc)["properties"].(doc)
	var codes, types []string
	for _, line := range codeTable() {
		codes, types = append(codes, string(line.code)), append(types, problemType(line.code))
	}
	members["code"] = doc{"type": "string", "enum": codes}
	members["type"] = doc{"type": "string", "format": "uri", "enum": types}
	members["status"] = doc{"type": "integer", "minimum": 400, "maximum": 599}
}

// needed are the members without which a request is refused.
func needed(name string) []string {
	switch name {
	case "ExecutionRequest":
		return []string{"agent_id"}
	case "ReserveRequest":
		return []string{"reservation_id", "provider", "model", "estimate"}
	default:
		return nil
	}
}

// idShape is in words what idSchema says.
const idShape = "1 to 128 of A-Z a-z 0-9 . _ : -, not dots alone."

const idPattern = `\.*[A-Za-z0-9_:-][A-Za-z0-9._:-]*`

func idSchema() doc {
	return doc{"type": "string", "maxLength": 128, "pattern": "^" + idPattern + "$", "description": idShape}
}

// text is a member that is text, by its name.
func text(name string) doc {
	switch {
	case name == "reservation_id":
		return idSchema()
	case name == "agent_id", name == "parent_agent_id", name == "cost_center":
		return doc{"type": "string", "maxLength": 128, "pattern": "^(" + idPattern + ")?$",
			"description": "A name of " + idShape + " Empty is none. In a usage event it may be any text."}
	case name == "root_execution_id": // "" in a request is none
		return doc{"type": "string", "maxLength": 128, "description": idShape}
	case strings.HasSuffix(name, "_at"), name == "as_of":
		return doc{"type": "string", "format": "date-time"}
	case name == "effect":
		return doc{"type": "string", "enum": []string{"read", "write", ""}}
	case name == "status":
		return doc{"type": "string", "enum": []string{statusSuccess, statusFailed, statusPartial, ""}}
	case name == "cache_hit":
		return doc{"type": "string", "enum": []string{"exact", "semantic", ""}}
	case name == "message":
		return doc{"type": "string", "description": "For the end user."}
	case name == "receipt":
		return doc{"type": "string", "minLength": 1, "description": "Proves the reservation: settle, extend and release may bring it, and then work while its hold is forgotten."}
	case name == "execution_token", name == "parent_token":
		return doc{"type": "string", "minLength": 1}
	default:
		return doc{"type": "string"}
	}
}
