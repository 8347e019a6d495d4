package org.apache.spark.kafka010;

import java.util.HashMap;
import java.util.Map;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;

/** Client properties as they are; with delegation tokens Spark would add a login. */
public class KafkaConfigUpdater {
    private final Map<String, Object> properties = new HashMap<String, Object>();

    public KafkaConfigUpdater(String module, scala.collection.immutable.Map<String, Object> properties) {
        Iterator<?> all = properties.iterator();
        while (all.hasNext()) {
            Tuple2<?, ?> pair = (Tuple2<?, ?>) all.next();
            this.properties.put((String) pair._1(), pair._2());
        }
    }

    public KafkaConfigUpdater set(String name, Object value) {
        properties.put(name, value);
        return this;
    }

    public KafkaConfigUpdater setIfUnset(String name, Object value) {
        properties.putIfAbsent(name, value);
        return this;
    }

    public KafkaConfigUpdater setAuthenticationConfigIfNeeded() {
        return this;
    }

    public KafkaConfigUpdater setAuthenticationConfigIfNeeded(Option<?> tokenCluster) {
        return this;
    }

    public Map<String, Object> build() {
        return properties;
    }
}
