package org.apache.spark.kafka010;

import java.util.Map;
import org.apache.spark.SparkConf;
import scala.Option;

/** No cluster has delegation tokens, so none is ever out of date. */
public final class KafkaTokenUtil$ {
    public static final KafkaTokenUtil$ MODULE$ = new KafkaTokenUtil$();

    public Option<?> findMatchingTokenClusterConfig(SparkConf conf, String bootstrapServers) {
        return Option.empty();
    }

    public boolean needTokenUpdate(Map<String, Object> properties, Option<?> tokenCluster) {
        return false;
    }
}
