// Writes kafka.txt: the schemas of Apache Kafka, one line for each message and run of equal versions, out of the jar.
//   java -cp 'LIBS/*' Dump.java Produce Fetch ... > kafka.txt
// where LIBS holds kafka-clients and its dependencies. The test every_table_is_the_schema_of_apache_kafka names the APIs.
import java.util.*;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.types.*;

public class Dump {
    public static void main(String[] names) {
        System.out.println("# Apache Kafka " + org.apache.kafka.common.utils.AppInfoParser.getVersion() + ", written by Dump.java");
        for (String name : names) {
            ApiKeys api = Arrays.stream(ApiKeys.values()).filter(k -> k.name.equals(name)).findFirst().orElseThrow();
            dump(name + " request", api, api.messageType.requestSchemas());
            dump(name + " response", api, api.messageType.responseSchemas());
        }
    }

    static void dump(String what, ApiKeys api, Schema[] schemas) {
        int last = api.latestVersion(true);
        for (int first = 0, v = 0; v <= last; v++) {
            if (schemas[v] == null) { first = v + 1; continue; }
            if (v == last || !text(schemas[v]).equals(text(schemas[v + 1]))) {
                System.out.println(what + " " + first + "-" + v + " " + text(schemas[v]));
                first = v + 1;
            }
        }
    }

    static String text(Type type) {
        String nullable = type.isNullable() ? "?" : "";
        if (type instanceof Schema schema) {
            StringJoiner fields = new StringJoiner(", ", "{", "}");
            boolean flexible = false;
            for (BoundField field : schema.fields()) {
                if (field.def.type instanceof TaggedFields tagged) {
                    flexible = true;
                    tagged.fields().forEach((tag, f) -> fields.add(f.name + " tag " + tag + ": " + text(f.type)));
                } else {
                    fields.add(field.def.name + ": " + text(field.def.type));
                }
            }
            return fields + (flexible ? "+" : "");
        }
        if (type.arrayElementType().isPresent()) return "[" + text(type.arrayElementType().get()) + "]" + nullable;
        String name = type.toString().toLowerCase().replace("compact_", "").replace("nullable_", "");
        return name + nullable;
    }
}
