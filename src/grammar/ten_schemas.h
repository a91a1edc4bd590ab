// Schemas as people write them, with every part of the supported subset somewhere.
#pragma once

namespace quire::testing_support {

inline constexpr const char* kTenSchemas[] = {
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "email": {"type": ["string", "null"]}}, "required": ["name", "age", "email"], "additionalProperties": false})",
    R"({"type": "object", "properties": {"steps": {"type": "array", "items": {"type": "object",
        "properties": {"explanation": {"type": "string"}, "output": {"type": "string"}},
        "required": ["explanation", "output"], "additionalProperties": false}}, "final_answer": {"type": "string"}},
        "required": ["steps", "final_answer"], "additionalProperties": false})",
    R"({"$defs": {"node": {"type": "object", "properties": {"value": {"type": "number"},
        "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["value", "next"],
        "additionalProperties": false}}, "$ref": "#/$defs/node"})",
    R"({"type": "object", "properties": {"type": {"enum": ["div", "button", "header", "section", "form"]},
        "label": {"type": "string", "maxLength": 12}, "children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["type", "children"], "additionalProperties": false})",
    R"({"type": "array", "minItems": 2, "maxItems": 4, "items": {"type": "string", "pattern": "^[A-Z]{2,3}-\\d{1,4}$"}})",
    R"({"type": "object", "properties": {"id": {"type": "string", "format": "uuid"}, "at": {"type": "string",
        "format": "date-time"}, "level": {"const": "info"}, "tags": {"type": "array", "items": {"type": "string",
        "minLength": 1, "maxLength": 8}, "maxItems": 3}}, "required": ["id", "at", "level", "tags"],
        "additionalProperties": false})",
    R"({"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "integer"}, "c": {"type": "string"},
        "d": {"type": "null"}}, "required": ["c"], "additionalProperties": {"type": "integer", "multipleOf": 7}})",
    R"({"anyOf": [{"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number",
        "exclusiveMinimum": 0, "maximum": 10.25}}, "required": ["kind", "radius"], "additionalProperties": false},
        {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"type": "number", "minimum": -1.5,
        "exclusiveMaximum": 1.5}}, "required": ["kind", "side"], "additionalProperties": false}]})",
    R"({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer", "exclusiveMinimum": -20,
        "exclusiveMaximum": -3}], "items": {"type": "boolean"}, "maxItems": 5})",
    R"({"type": "object", "title": "all optional", "properties": {"name": {"type": "string", "description": "who"},
        "extra": {"type": "object", "additionalProperties": {"type": ["number", "boolean"]}}, "any": true}})",
};

}  // namespace quire::testing_support
